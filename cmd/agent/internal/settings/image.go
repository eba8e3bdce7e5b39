package settings

import (
	"context"
	"os"
	"path/filepath"

	"howdah.dev/howdah/cmd/agent/internal/extensions"
	"howdah.dev/howdah/pkg/postgres"
)

// Image is what PostgreSQL's programs can do beyond what all of them can.
type Image struct {
	// Statements: pg_stat_statements can be loaded.
	Statements bool
	// LZ4 compresses WAL for a fraction of the CPU time of PostgreSQL's own method.
	LZ4 bool
	// Extensions are those of mounted images.
	Extensions extensions.Folders
}

// libraryFolders are where an image has its libraries, beside the programs.
var libraryFolders = []string{"../lib", "../lib/postgresql", "../lib64/pgsql", "../lib/pgsql"}

// Inspect finds out what the programs of a folder can do, of which a data directory is used but not changed.
func Inspect(ctx context.Context, run postgres.Run, binDir, pgdata string) Image {
	var found Image
	for _, folder := range libraryFolders {
		if _, err := os.Stat(filepath.Join(binDir, folder, "pg_stat_statements.so")); err == nil {
			found.Statements = true
		}
	}
	_, err := run(ctx, filepath.Join(binDir, "postgres"), "-D", pgdata, "-C", "wal_compression", "-c", "wal_compression=lz4")
	found.LZ4 = err == nil
	return found
}

func (i Image) parameters() []postgres.Parameter {
	params := map[string]string{"wal_compression": "on"}
	if i.LZ4 {
		params["wal_compression"] = "lz4"
	}
	if i.Statements {
		params["shared_preload_libraries"] = "pg_stat_statements"
	}
	return append(postgres.ParameterList(params), i.Extensions.Parameters()...)
}
