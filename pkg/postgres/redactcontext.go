package postgres

import (
	"regexp"
	"strings"
)

// frames are the kinds of lines of a CONTEXT that are kept: they name functions and relations, and say nothing of values.
var frames = regexp.MustCompile(`^(PL/[A-Za-z]+ (function|anonymous code block).*|SQL function "[^"]*" (statement \d+|during [a-z]+)` +
	`|(while|during) [a-z ]+( \(\d+,\d+\))?( (in|of) (relation|index|table|sequence) "[^"]*")?( of relation "[^"]*")?( in tablespace \d+)?` +
	`|automatic (vacuum|analyze) of table "[^"]*"|parallel worker|WAL redo at [0-9A-F/]+ for .*|JSON data, line \d+|COPY [^,:]+(, line \d+)?(, column [^:"]+)?)$`)

const (
	statementFrame = `SQL statement "`
	remoteFrame    = "remote SQL command: "
)

// redactContext keeps the functions and relations that a CONTEXT names, and the statements of functions without their literals. What it
// doesn't know it leaves out.
func redactContext(text string) string {
	var out []string
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if sql, is := strings.CutPrefix(line, statementFrame); is {
			for !strings.HasSuffix(sql, `"`) && i+1 < len(lines) {
				i++
				sql += "\n" + lines[i]
			}
			out = append(out, statementFrame+RedactSQL(strings.TrimSuffix(sql, `"`))+`"`)
			continue
		}
		if sql, is := strings.CutPrefix(line, remoteFrame); is { // it has no end: the rest may belong to it
			out = append(out, remoteFrame+RedactSQL(strings.Join(append([]string{sql}, lines[i+1:]...), "\n")))
			break
		}
		if kept := frameWithoutValue(line); frames.MatchString(kept) {
			out = append(out, kept)
		}
	}
	return strings.Join(out, "\n")
}

// frameWithoutValue cuts what COPY quotes of its input: COPY orders, line 3, column price: "12,5".
func frameWithoutValue(line string) string {
	if strings.HasPrefix(line, "COPY ") || strings.HasPrefix(line, "JSON data, ") {
		line, _, _ = strings.Cut(line, ": ")
	}
	return line
}
