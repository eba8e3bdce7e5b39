package docs

import (
	"regexp"
	"strings"
	"testing"
)

var findingConstants = regexp.MustCompile(`\bFinding[A-Za-z]+\s+= "([A-Za-z]+)"`)

func TestEveryFindingOfAnAgentHasItsReasonItsRuleAndARunbookEntry(t *testing.T) {
	found := findingConstants.FindAllSubmatch(contentOf(t, "pkg/agentapi/finding.go"), -1)
	if len(found) < 9 {
		t.Fatalf("%d findings", len(found))
	}
	api := string(contentOf(t, "apis/v1alpha1/postgrescluster_findings.go"))
	_, runbook, _ := strings.Cut(string(contentOf(t, "docs/runbooks/README.md")), "\n## Findings\n")
	runbook, _, _ = strings.Cut(runbook, "\n## ")
	tuning := string(contentOf(t, "docs/tuning.md"))
	for _, constant := range found {
		reason := string(constant[1])
		if !strings.Contains(api, `"`+reason+`"`) || !strings.Contains(runbook, "\n| `"+reason+"` |") || !strings.Contains(tuning, "\n| `"+reason+"` |") {
			t.Errorf("%s is not in the API, the runbook's chapter and docs/tuning.md", reason)
		}
	}
}
