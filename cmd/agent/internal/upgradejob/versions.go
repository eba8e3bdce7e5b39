package upgradejob

import (
	"bufio"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"howdah.dev/howdah/pkg/agentapi"
)

// otherVersions finds extensions that the new image has in another version: those that can't be brought to it, and those that call functions of
// their library that the new one lacks. pg_upgrade carries over an extension as it is, so its functions need the library of the new image to have
// them. The rehearsal finds neither, as its copy has each extension in the version of the running image.
func otherVersions(ctx context.Context, conn *pgx.Conn, database string, to target) ([]agentapi.Finding, error) {
	stuck, err := withoutUpdate(ctx, conn, database, to)
	if err != nil {
		return nil, err
	}
	lacking, err := missingFunctions(ctx, conn, database, to)
	return append(stuck, lacking...), err
}

// withoutUpdate finds extensions for which ALTER EXTENSION … UPDATE fails after the upgrade.
func withoutUpdate(ctx context.Context, conn *pgx.Conn, database string, to target) (findings []agentapi.Finding, err error) {
	rows, err := conn.Query(ctx, "SELECT extname::text, extversion FROM pg_catalog.pg_extension ORDER BY 1")
	if err != nil {
		return nil, err
	}
	installed, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Name, Version string }])
	if err != nil {
		return nil, err
	}
	for _, extension := range installed {
		files, err := filesOf(to.share, extension.Name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // which is another finding
		case err != nil:
			return nil, fmt.Errorf("extension %s in the new image: %w", extension.Name, err)
		}
		if files.leads(extension.Version) {
			continue
		}
		findings = append(findings, agentapi.Finding{
			Severity: severityWarning, Check: "ExtensionUpdate", Database: database,
			Message: fmt.Sprintf("Extension %s has version %s, and the image of PostgreSQL %d has version %s and no script that leads there. So it stays at %[2]s, and may not fit its "+
				"library: run ALTER EXTENSION ... UPDATE to a version from which there is one before the upgrade, or set spec.image to an image that has the script.",
				extension.Name, extension.Version, to.major, files.version),
		})
	}
	return findings, nil
}

// extensionFiles is what an image has of an extension.
type extensionFiles struct {
	version string              // that it would be brought to; empty: its control file names none
	updates map[string][]string // by the version that they lead from
}

// leads says whether ALTER EXTENSION … UPDATE succeeds.
func (f extensionFiles) leads(from string) bool {
	if f.version == "" {
		return true // nothing is brought to another version
	}
	reached := []string{from}
	for i := 0; i < len(reached); i++ {
		if reached[i] == f.version {
			return true
		}
		for _, next := range f.updates[reached[i]] {
			if !slices.Contains(reached, next) {
				reached = append(reached, next)
			}
		}
	}
	return false
}

// filesOf an extension, in the first of some share folders that has it.
func filesOf(share []string, name string) (extensionFiles, error) {
	files := extensionFiles{updates: map[string][]string{}}
	i := slices.IndexFunc(share, func(folder string) bool {
		return anyHas([]string{folder}, filepath.Join("extension", name+".control"))
	})
	if i < 0 {
		return files, fs.ErrNotExist
	}
	scripts := filepath.Join(share[i], "extension")
	control, err := readControl(filepath.Join(scripts, name+".control"))
	if err != nil {
		return files, err
	}
	files.version = control["default_version"]
	if directory := control["directory"]; filepath.IsAbs(directory) {
		scripts = directory
	} else if directory != "" {
		scripts = filepath.Join(share[i], directory)
	}
	entries, err := os.ReadDir(scripts)
	if err != nil {
		return files, err
	}
	for _, entry := range entries {
		versions, is := strings.CutPrefix(strings.TrimSuffix(entry.Name(), ".sql"), name+"--")
		if from, to, update := strings.Cut(versions, "--"); is && update && strings.HasSuffix(entry.Name(), ".sql") && !strings.Contains(to, "--") {
			files.updates[from] = append(files.updates[from], to)
		}
	}
	return files, nil
}

// readControl reads the settings of a control file, which has the syntax of postgresql.conf.
func readControl(path string) (map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	settings := map[string]string{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		name, value, is := strings.Cut(strings.TrimSpace(lines.Text()), "=")
		if !is || strings.HasPrefix(name, "#") {
			continue
		}
		value = strings.TrimSpace(value)
		if quoted, is := strings.CutPrefix(value, "'"); is {
			value, _, _ = strings.Cut(quoted, "'") // no version or folder has a quote
		} else {
			value, _, _ = strings.Cut(value, "#")
		}
		settings[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
	}
	return settings, lines.Err()
}

// missingFunctions finds functions of extensions that their library in the new image lacks. PostgreSQL looks each up when pg_upgrade creates it,
// which is once the cluster is stopped.
func missingFunctions(ctx context.Context, conn *pgx.Conn, database string, to target) (findings []agentapi.Finding, err error) {
	rows, err := conn.Query(ctx, `SELECT p.probin, COALESCE(pg_catalog.min(e.extname || ' ' || e.extversion), ''), pg_catalog.array_agg(DISTINCT p.prosrc ORDER BY p.prosrc)
		FROM pg_catalog.pg_proc p
		LEFT JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid AND d.deptype = 'e'
		LEFT JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
		WHERE p.probin LIKE '$libdir/%' AND p.oid >= 16384 GROUP BY p.probin ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	libraries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
		Library, Extension string
		Functions          []string
	}])
	if err != nil {
		return nil, err
	}
	for _, used := range libraries {
		name := strings.TrimSuffix(strings.TrimPrefix(used.Library, "$libdir/"), ".so")
		has, err := exportedBy(filepath.Join(to.lib, name+".so"))
		if err != nil {
			continue // it is missing, which is another finding; or no program here can read it, and pg_upgrade says what it is
		}
		lacks := slices.DeleteFunc(used.Functions, func(function string) bool { return has[function] })
		if len(lacks) == 0 {
			continue
		}
		what := "Functions use"
		if used.Extension != "" {
			what = "Extension " + used.Extension + " uses"
		}
		findings = append(findings, agentapi.Finding{
			Severity: severityError, Check: "FunctionMissing", Database: database,
			Message: fmt.Sprintf("%s %d functions that the library %s in the image of PostgreSQL %d doesn't have, the first of which is %s: run ALTER EXTENSION ... UPDATE, "+
				"or DROP what uses them, or set spec.image to an image with a release that has them.", what, len(lacks), name, to.major, lacks[0]),
		})
	}
	return findings, nil
}

// exportedBy are the names that a library defines for others.
func exportedBy(path string) (map[string]bool, error) {
	library, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer library.Close()
	symbols, err := library.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	defined := map[string]bool{}
	for _, symbol := range symbols {
		if symbol.Section != elf.SHN_UNDEF {
			defined[symbol.Name] = true
		}
	}
	return defined, nil
}
