package upgradejob

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"howdah.dev/howdah/pkg/agentapi"
)

// parameters asks the server of the new version about each parameter of the cluster. One that it doesn't know, or whose value it
// refuses, would keep it from starting on the new data. The data directory is one of the new version.
func (w Worker) parameters(ctx context.Context, found programs, dataDir string, of map[string]string) ([]agentapi.Finding, error) {
	var findings []agentapi.Finding
	for _, name := range slices.Sorted(maps.Keys(of)) {
		_, err := w.Run(ctx, filepath.Join(found.newBin, "postgres"), "-D", dataDir, "-c", "log_line_prefix=", "-c", name+"="+of[name], "-C", name)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			findings = append(findings, agentapi.Finding{
				Severity: severityError, Check: "ParameterRefused",
				Message: fmt.Sprintf("The new version refuses spec.postgresql.parameters.%s (%s): remove it, or set a value that both versions accept.",
					name, fatal(err.Error())),
			})
		}
	}
	return findings, nil
}

// fatal is why a server didn't start, out of its messages.
func fatal(messages string) string {
	_, why, found := strings.Cut(messages, "FATAL:")
	if !found {
		return fmt.Sprintf("%.300s", messages)
	}
	why, _, _ = strings.Cut(strings.TrimSpace(why), "\n")
	return why
}
