package rules

import (
	"bytes"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"testing"
)

// A function that is longer has several tasks, and so has a file: split it.
const (
	longestFunction = 60
	longestFile     = 400
)

// longFiles are those that were longer when the limit came, with how long they may be. They are to become fewer and shorter: lower a
// number when its file shrinks, and add none.
var longFiles = map[string]int{
	"apis/v1alpha1/postgrescluster_status.go": 500,
	"apis/v1alpha1/postgrescluster_types.go":  500,
	"cmd/agent/internal/pgbouncer/run.go":     500,
	"test/worlds/kube.go":                     530,
	"test/worlds/people.go":                   420,
}

func TestNoFunctionIsTooLong(t *testing.T) {
	eachSource(t, []string{"apis", "cmd", "pkg", "test", "tools"}, func(path string, files *token.FileSet, source *ast.File) {
		for _, declared := range source.Decls {
			function, ok := declared.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if lines := files.Position(function.End()).Line - files.Position(function.Pos()).Line + 1; lines > longestFunction {
				t.Errorf("%s: %s has %d lines, and may have %d: split it", path, function.Name.Name, lines, longestFunction)
			}
		}
	})
}

func TestNoFileIsTooLong(t *testing.T) {
	rest := maps.Clone(longFiles)
	eachSource(t, []string{"apis", "cmd", "pkg", "test", "tools"}, func(path string, files *token.FileSet, source *ast.File) {
		limit := max(longestFile, longFiles[path])
		lines := bytes.Count([]byte(read(t, path)), []byte("\n"))
		if lines > limit {
			t.Errorf("%s has %d lines, and may have %d: split it", path, lines, limit)
		}
		if lines > longestFile {
			delete(rest, path)
		}
	})
	for _, path := range slices.Sorted(maps.Keys(rest)) {
		t.Errorf("%s is not longer than %d lines any more: remove it from longFiles", path, longestFile)
	}
}
