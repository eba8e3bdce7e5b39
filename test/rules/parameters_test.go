package rules

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/postgres"
)

// TestTheAPIServerRefusesTheParametersThatTheAgentRefuses: both say the same, from the list in pkg/postgres. A marker that is missing
// or has changed is printed as it has to be.
func TestTheAPIServerRefusesTheParametersThatTheAgentRefuses(t *testing.T) {
	types, err := os.ReadFile("../../apis/v1alpha1/postgrescluster_types.go")
	if err != nil {
		t.Fatal(err)
	}
	reasons, markers := postgres.FixedByReason(), 0
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		list := "['" + strings.Join(reasons[why], "','") + "']"
		said := strings.ReplaceAll(why, "'", `\\'`)
		marker := fmt.Sprintf("\t// +kubebuilder:validation:XValidation:rule=\"!%s.exists(n, n in self)\",messageExpression=\"'spec.postgresql.parameters can\\\\'t set ' + %[1]s.filter(n, n in self)[0] + ': %s; remove it'\"\n", list, said)
		if !strings.Contains(string(types), marker) {
			t.Errorf("the field parameters of PostgreSQLSpec needs\n%s", marker)
		}
		markers++
	}
	if got := strings.Count(string(types), "messageExpression=\"'spec.postgresql.parameters can"); got != markers {
		t.Errorf("it has %d such markers, and there are %d reasons", got, markers)
	}
}
