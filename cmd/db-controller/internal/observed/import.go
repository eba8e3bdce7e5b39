package observed

import (
	"encoding/json"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// ImportProgress is how far the import or the clone is, as its Job has said; nil: it has said nothing that can be read.
func (o *Cluster) ImportProgress() *v1alpha1.Progress {
	progress := &v1alpha1.Progress{}
	if !o.importSaid(agentapi.ImportProgressKey, progress) || progress.Phase == "" {
		return nil
	}
	const phase, message = 64, 300
	progress.Phase, progress.Message = Bounded(progress.Phase, phase), Bounded(progress.Message, message)
	return progress
}

// Bounded is a text of a pod that is not trusted, cut off after this many characters.
func Bounded(text string, most int) string {
	if characters := []rune(text); len(characters) > most {
		return string(characters[:most-1]) + "…"
	}
	return text
}

// ImportPreflight is what the Job has found on the source; nil: it has said nothing that can be read.
func (o *Cluster) ImportPreflight() *agentapi.ImportPreflight {
	found := &agentapi.ImportPreflight{}
	if !o.importSaid(agentapi.ImportPreflightKey, found) {
		return nil
	}
	return found
}

func (o *Cluster) importSaid(key string, into any) bool {
	return o.ImportReport != nil && json.Unmarshal([]byte(o.ImportReport.Data[key]), into) == nil
}
