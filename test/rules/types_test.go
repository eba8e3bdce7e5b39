package rules

import (
	"go/ast"
	"go/token"
	"path"
	"testing"
)

// mostMethods is how many methods a type may have. One with more has several tasks: split it into types that say who owns what.
const mostMethods = 40

func TestNoTypeHasMoreMethodsThanFitIntoAHead(t *testing.T) {
	methods := map[string]int{}
	eachSource(t, []string{"apis", "cmd", "pkg"}, func(file string, _ *token.FileSet, source *ast.File) {
		for _, declared := range source.Decls {
			if function, ok := declared.(*ast.FuncDecl); ok && function.Recv != nil {
				methods[path.Dir(file)+"."+receiver(function.Recv.List[0].Type)]++
			}
		}
	})
	for name, count := range methods {
		if count > mostMethods {
			t.Errorf("%s has %d methods, and may have %d: split it, and leave test/rules/types_test.go as it is", name, count, mostMethods)
		}
	}
}

// receiver is the name of a method's type.
func receiver(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}
