package upgradejob

import (
	"os"
	"regexp"
	"strings"
)

// complaint is the lines of pg_upgrade's output that say what is wrong.
func complaint(output string) string {
	var lines []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		ok := line == "" || strings.HasSuffix(line, " ok") || strings.HasPrefix(line, "---") || strings.HasPrefix(line, "Performing")
		if !ok {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

// consult is how pg_upgrade refers to a file that says what went wrong.
var consult = regexp.MustCompile(`Consult the last few lines of\s+"([^"]+\.log)"`)

// causes are the lines that name an error in the files that the output refers to: these go with the data that failed. No
// statement is among them, which may hold what nobody else is to read.
func causes(output string) string {
	const most = 3
	var lines []string
	for _, match := range consult.FindAllStringSubmatch(output, -1) {
		content, err := os.ReadFile(match[1])
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(content)) {
			if strings.Contains(line, "error: ") || strings.Contains(line, "FATAL: ") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	return strings.Join(lines[max(0, len(lines)-most):], " ")
}
