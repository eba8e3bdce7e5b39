package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// The data set at scale 1: 5.4 GB in 13,000 files.
const (
	pgbenchScale = 300
	noiseRows    = 65_536 // of 8,000 random bytes
	smallTables  = 2_000
)

func scaled(n int, scale float64) int { return max(1, int(math.Round(float64(n)*scale))) }

// fill makes the data set.
func (s *server) fill(ctx context.Context, scale float64) error {
	err := s.run(ctx, filepath.Join(s.bin, "pgbench"), "--host="+s.sockets, "--username=postgres", "--initialize", "--quiet",
		"--scale="+strconv.Itoa(scaled(pgbenchScale, scale)), "postgres")
	if err != nil {
		return err
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := fillNoise(ctx, conn, scaled(noiseRows, scale)); err != nil {
		return fmt.Errorf("random bytes: %w", err)
	}
	if err := fillSmall(ctx, conn, scaled(smallTables, scale)); err != nil {
		return fmt.Errorf("small tables: %w", err)
	}
	_, err = conn.Exec(ctx, "CHECKPOINT")
	return err
}

// fillNoise makes a table that doesn't compress.
func fillNoise(ctx context.Context, conn *pgx.Conn, rows int) error {
	if _, err := conn.Exec(ctx, "CREATE TABLE noise (content bytea)"); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "ALTER TABLE noise ALTER content SET STORAGE EXTERNAL"); err != nil {
		return err
	}
	_, err := conn.CopyFrom(ctx, pgx.Identifier{"noise"}, []string{"content"}, pgx.CopyFromSlice(rows, func(int) ([]any, error) {
		content := make([]byte, 8000)
		_, err := rand.Read(content)
		return []any{content}, err
	}))
	return err
}

// fillSmall makes many tables, with an index and a few rows each.
func fillSmall(ctx context.Context, conn *pgx.Conn, tables int) error {
	const each = 100 // tables in one transaction
	for from := 0; from < tables; from += each {
		_, err := conn.Exec(ctx, fmt.Sprintf(`DO $$ BEGIN
			FOR n IN %d..%d LOOP
				EXECUTE format('CREATE TABLE small_%%s (id int PRIMARY KEY, note text)', n);
				EXECUTE format('INSERT INTO small_%%s SELECT i, md5(i::text || %%L) FROM generate_series(1, 50) AS i', n, n);
			END LOOP;
		END $$`, from, min(from+each, tables)-1))
		if err != nil {
			return err
		}
	}
	return nil
}

func readAll(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(io.Discard, file)
	return err
}

// size counts what a backup has to copy, WAL apart.
func (s *server) size() (bytes int64, files int, err error) {
	err = filepath.WalkDir(s.data, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == "pg_wal" {
			return filepath.SkipDir
		}
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() {
			bytes, files = bytes+info.Size(), files+1
		}
		return err
	})
	return bytes, files, err
}

// copyFile makes a copy that is whole as soon as it is there.
func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}
