package upgradejob

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"howdah.dev/howdah/pkg/agentapi"
)

// unicodeReport is the file in which pg_upgrade lists what depends on the version of Unicode that is built into PostgreSQL, if that changes. It
// is a warning: the upgrade succeeds.
const unicodeReport = "unicode_dependent_rels.txt"

// ofRelation is a line of it, such as "  (oid=16389) public.by_name".
var ofRelation = regexp.MustCompile(`^\(oid=\d+\) (.+)$`)

// byUnicode finds what the new version's Unicode affects, in what pg_upgrade has retained beside the new data.
func byUnicode(newData string, major int) ([]agentapi.Finding, error) {
	reports, err := filepath.Glob(filepath.Join(newData, "pg_upgrade_output.d", "*", unicodeReport))
	if err != nil {
		return nil, err
	}
	var findings []agentapi.Finding
	for _, path := range reports {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		findings = append(findings, unicodeFindings(string(content), major)...)
	}
	return findings, nil
}

// unicodeFindings are what a report says, one finding for each database.
func unicodeFindings(report string, major int) []agentapi.Finding {
	var findings []agentapi.Finding
	database, relations := "", []string(nil)
	flush := func() {
		if len(relations) > 0 {
			findings = append(findings, agentapi.Finding{Severity: severityWarning, Check: "UnicodeVersion", Database: database, Message: fmt.Sprintf(
				"PostgreSQL %d has a newer Unicode, which may change what normalize, and functions and regular expressions on text of a built-in locale, return for "+
					"characters that are new in it. These depend on that: %s. After the upgrade, REINDEX indexes and REFRESH materialized views among them.", major, some(relations))})
		}
		relations = nil
	}
	for line := range strings.Lines(report) {
		line = strings.TrimSpace(line)
		if name, is := strings.CutPrefix(line, "In database: "); is {
			flush()
			database = name
		} else if found := ofRelation.FindStringSubmatch(line); found != nil {
			relations = append(relations, found[1])
		}
	}
	flush()
	return findings
}
