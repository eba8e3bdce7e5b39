package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// eachFile calls visit for the files below some folders of the repository that have one of the extensions, but for test data.
func eachFile(t *testing.T, folders, extensions []string, visit func(path string)) {
	t.Helper()
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() {
				if name := entry.Name(); name == "testdata" || name == ".git" || name == "build" {
					return filepath.SkipDir
				}
				return nil
			}
			for _, extension := range extensions {
				if strings.HasSuffix(path, extension) {
					visit(filepath.ToSlash(strings.TrimPrefix(path, root+"/")))
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// eachSource parses the Go files below some folders, but for tests and generated files.
func eachSource(t *testing.T, folders []string, visit func(path string, files *token.FileSet, file *ast.File)) {
	t.Helper()
	files := token.NewFileSet()
	eachFile(t, folders, []string{".go"}, func(path string) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(filepath.Base(path), "zz_generated") {
			return
		}
		file, err := parser.ParseFile(files, filepath.Join(root, path), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		visit(path, files, file)
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
