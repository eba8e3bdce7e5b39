package postgres

import (
	"regexp"
	"strings"
)

var (
	// planNode is a line of a plan in text: what is done, and then what it costs.
	planNode = regexp.MustCompile(`^(.*?)((?:  ?\((?:cost|actual|rows|never executed)[^()]*\))+)$`)
	// planFigures are lines that have no values of the application in them.
	planFigures = regexp.MustCompile(`^\s*(Planning Time|Execution Time|Heap Fetches|Heap Blocks|Rows Removed by [A-Za-z ]+|Workers (?:Planned|Launched)|Buffers|I/O Timings` +
		`|Sort Method|Buckets|Batches|Peak Memory Usage|WAL|Hits|Index Searches|Storage|Loops|Memory Usage|Disk Usage)(?:: | *$)[A-Za-z0-9 =.,:/()-]*$`)
)

// redactPlan takes the literals out of a plan that auto_explain wrote as text. Of any other format nothing is kept: what a number is
// there can't be told from the line it is in.
func redactPlan(plan string) string {
	if !strings.HasPrefix(strings.TrimLeft(plan, " "), "Query Text:") {
		return "(left out: auto_explain.log_format is not text)"
	}
	query, nodes := splitPlan(strings.Split(plan, "\n"))
	out := []string{RedactSQL(strings.Join(query, "\n"))}
	for _, line := range nodes {
		switch m := planNode.FindStringSubmatch(line); {
		case m != nil:
			out = append(out, RedactSQL(m[1])+m[2])
		case planFigures.MatchString(line):
			out = append(out, line)
		default:
			out = append(out, RedactSQL(line))
		}
	}
	return strings.Join(out, "\n")
}

// splitPlan parts the query, which may have many lines, from its plan: that begins with the first line that says what something costs.
func splitPlan(lines []string) (query, nodes []string) {
	for i, line := range lines {
		if i > 0 && planNode.MatchString(line) {
			return lines[:i], lines[i:]
		}
	}
	return lines, nil
}
