package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"howdah.dev/howdah/pkg/agentapi"
)

// podGeneration is the data generation that the pod was started for, as its annotations say. The configuration in the
// projected ConfigMap may be older than the pod. Empty: the pod doesn't say.
func podGeneration() string {
	content, err := os.ReadFile(filepath.Join(agentapi.PodInfoDir, "annotations"))
	if err != nil {
		return ""
	}
	return annotation(string(content), agentapi.AnnotationDataGeneration)
}

// annotation finds one in the file that the downward API writes: a line with key="value" each, quoted as in Go.
func annotation(content, key string) string {
	for line := range strings.Lines(content) {
		quoted, found := strings.CutPrefix(strings.TrimSpace(line), key+"=")
		if !found {
			continue
		}
		if value, err := strconv.Unquote(quoted); err == nil {
			return value
		}
	}
	return ""
}
