package observed

import (
	"encoding/json"
	"slices"

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

// ImportOnline is how an online import follows its source, as the Job has said; nil: it has said nothing that can be read.
func ImportOnline(o *Cluster) *v1alpha1.OnlineImportStatus {
	online := &v1alpha1.OnlineImportStatus{}
	if !o.importSaid(agentapi.ImportOnlineKey, online) || !slices.Contains(onlineStates, online.State) {
		return nil
	}
	return online
}

var onlineStates = []v1alpha1.OnlineImportState{
	v1alpha1.OnlineImportCopying, v1alpha1.OnlineImportFollowing, v1alpha1.OnlineImportCuttingOver, v1alpha1.OnlineImportCutOver,
}

// OnlineImport is what spec says of one; nil: the cluster has none.
func OnlineImport(o *Cluster) *v1alpha1.OnlineImport {
	if !o.Imports() {
		return nil
	}
	return o.Cluster.Spec.Bootstrap.Import.Online
}

func (o *Cluster) importSaid(key string, into any) bool {
	return o.ImportReport != nil && json.Unmarshal([]byte(o.ImportReport.Data[key]), into) == nil
}
