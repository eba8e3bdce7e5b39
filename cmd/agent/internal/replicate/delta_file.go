package replicate

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	deltaPart  = 128 << 10 // bytes that are compared by one checksum
	deltaSpan  = 64 << 20  // bytes whose checksums are asked for at once
	deltaFetch = 4 << 20   // bytes that are fetched at once at most
)

// The third argument of both is a number of bytes. Of a file that was removed meanwhile neither returns anything.
const (
	sumsQuery = `SELECT string_agg(sha256(pg_read_binary_file($1, at, least($4::bigint, $2::bigint + $3::bigint - at), true)), ''::bytea ORDER BY at)
		FROM generate_series($2::bigint, $2::bigint + $3::bigint - 1, $4::bigint) AS at`
	rangeQuery = `SELECT pg_read_binary_file($1, $2::bigint, $3::bigint, true)`
)

// errRemoved is a file that the source has no more. It may be left out: the WAL says so as well.
var errRemoved = errors.New("the file was removed meanwhile")

// copyFile copies one file, part by part.
func (d *delta) copyFile(ctx context.Context, conn *pgx.Conn, f sourceFile) error {
	to, err := d.to.OpenFile(f.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer to.Close()
	own := to
	if !d.inPlace {
		if own = d.openOwn(f.path); own != nil {
			defer own.Close()
		}
	}
	var end int64 // of what the source has, which may be shorter by now
	for end < f.size {
		n := min(deltaSpan, f.size-end)
		copied, err := d.copySpan(ctx, conn, f, own, to, end, n)
		if errors.Is(err, errRemoved) {
			return errors.Join(to.Close(), d.to.Remove(f.path))
		} else if err != nil {
			return err
		}
		d.progress(d.done.Add(n), d.total)
		if end += copied; copied < n {
			break
		}
	}
	return errors.Join(to.Truncate(end), to.Close())
}

// openOwn opens the file of the same name here; nil: there is none.
func (d *delta) openOwn(path string) *os.File {
	info, err := d.own.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	file, err := d.own.Open(path)
	if err != nil {
		return nil
	}
	return file
}

// copySpan copies the n bytes at a position, and returns how many of them the source still has.
func (d *delta) copySpan(ctx context.Context, conn *pgx.Conn, f sourceFile, own, to *os.File, at, n int64) (int64, error) {
	same := make([]bool, (n+deltaPart-1)/deltaPart)
	if own != nil {
		if err := compare(ctx, conn, f, own, at, n, same); err != nil {
			return 0, err
		}
	}
	for first, i := 0, 0; first < len(same); first = i {
		for i < len(same) && same[i] == same[first] && (same[first] || (i-first)*deltaPart < deltaFetch) {
			i++
		}
		begin := at + int64(first)*deltaPart
		length := min(int64(i-first)*deltaPart, at+n-begin)
		if same[first] {
			if err := d.take(own, to, begin, length); err != nil {
				return 0, err
			}
			continue
		}
		content, err := readRange(ctx, conn, f, begin, length)
		if err != nil {
			return 0, err
		}
		if _, err := to.WriteAt(content, begin); err != nil {
			return 0, err
		}
		if got := int64(len(content)); got < length {
			return begin + got - at, nil
		}
	}
	return n, nil
}

// take copies what is the same from the own file, unless it is there.
func (d *delta) take(own, to *os.File, at, n int64) error {
	d.taken.Add(n)
	if d.inPlace {
		return nil
	}
	return copyRange(own, to, at, n)
}

// compare finds out which parts are the same here and at the source.
func compare(ctx context.Context, conn *pgx.Conn, f sourceFile, own *os.File, at, n int64, same []bool) error {
	if info, err := own.Stat(); err != nil || info.Size() <= at {
		return err
	}
	sums, err := binary(ctx, conn, sumsQuery, f.path, at, n, deltaPart)
	if err != nil {
		return err
	}
	if len(sums) != len(same)*sha256.Size {
		return errRemoved
	}
	part := make([]byte, deltaPart)
	for i := range same {
		begin := at + int64(i)*deltaPart
		same[i] = has(own, part[:min(deltaPart, at+n-begin)], begin, [sha256.Size]byte(sums[i*sha256.Size:]))
	}
	return nil
}

// has says whether a file has bytes with this checksum at a position. What can't be read here is fetched.
func has(own *os.File, buffer []byte, at int64, sum [sha256.Size]byte) bool {
	n, _ := own.ReadAt(buffer, at)
	return n == len(buffer) && sha256.Sum256(buffer) == sum
}

// copyRange copies within the kernel, which shares the blocks where the filesystem can.
func copyRange(from, to *os.File, at, n int64) error {
	for _, file := range []*os.File{from, to} {
		if _, err := file.Seek(at, io.SeekStart); err != nil {
			return err
		}
	}
	_, err := io.CopyN(to, from, n)
	return err
}

// readRange reads bytes of a file of the source, fewer at its end.
func readRange(ctx context.Context, conn *pgx.Conn, f sourceFile, at, n int64) ([]byte, error) {
	return binary(ctx, conn, rangeQuery, f.path, at, n)
}

// binary returns the one bytea of a query as it is, which takes half of what text would. errRemoved: it is null.
func binary(ctx context.Context, conn *pgx.Conn, query, path string, numbers ...int64) ([]byte, error) {
	arguments := [][]byte{[]byte(path)}
	for _, n := range numbers {
		arguments = append(arguments, strconv.AppendInt(nil, n, 10))
	}
	result := conn.PgConn().ExecParams(ctx, query, arguments, nil, nil, []int16{pgx.BinaryFormatCode}).Read()
	if result.Err != nil {
		return nil, result.Err
	}
	return one(result)
}

func one(result *pgconn.Result) ([]byte, error) {
	if len(result.Rows) != 1 || len(result.Rows[0]) != 1 || result.Rows[0][0] == nil {
		return nil, errRemoved
	}
	return result.Rows[0][0], nil
}
