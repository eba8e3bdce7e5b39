package report

import (
	"slices"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
)

// What a status has room for; the schema has the same limits.
const (
	mostImportLines     = 64
	mostImportDatabases = 256
	mostImportProblems  = 16
	// Names and warnings are so long at most, in characters: the pod runs what the source has in its schemas, and could say anything.
	longestImportName, longestImportText = 64, 1000
)

// reportImport shows what the init Job has said of an import, until that is complete: then it was recorded.
func reportImport(o *observed.Cluster) {
	if !o.Imports() || o.HasRun() || o.Cluster.Status.Import != nil && o.Cluster.Status.Import.CompletedAt != nil {
		return
	}
	progress, found, online := o.ImportProgress(), o.ImportPreflight(), observed.ImportOnline(o)
	if progress == nil && found == nil && online == nil {
		return
	}
	if o.Cluster.Status.Import == nil {
		o.Cluster.Status.Import = &v1alpha1.ImportStatus{}
	}
	status := o.Cluster.Status.Import
	status.Progress = progress
	if online != nil && observed.OnlineImport(o) != nil && (status.Online == nil || status.Online.State != v1alpha1.OnlineImportReleased) {
		online.Problems = bounded(online.Problems, mostImportProblems, longestImportText)
		status.Online = online
	}
	if found != nil {
		status.SourceVersion = observed.Bounded(found.SourceVersion, longestImportName)
		status.Databases = bounded(found.Databases, mostImportDatabases, longestImportName)
		status.Warnings = bounded(found.Warnings, mostImportLines, longestImportText)
		status.RolesWithoutPassword = bounded(found.RolesWithoutPassword, mostImportLines, longestImportName)
	}
}

func bounded(texts []string, most, longest int) []string {
	texts = slices.Clone(texts[:min(len(texts), most)])
	for i := range texts {
		texts[i] = observed.Bounded(texts[i], longest)
	}
	return texts
}

// Import is the record of an import that is complete.
func Import(o *observed.Cluster) {
	reportImport(o)
	if o.Cluster.Status.Import == nil {
		o.Cluster.Status.Import = &v1alpha1.ImportStatus{}
	}
	o.Cluster.Status.Import.Progress = nil
}

// reportClone shows how far the copy of another cluster's data is, until it is complete.
func reportClone(o *observed.Cluster) {
	status := o.Cluster.Status.Clone
	if progress := o.ImportProgress(); observed.Clones(o) && status != nil && status.CompletedAt == nil && !o.HasRun() && progress != nil {
		status.Progress = progress
	}
}
