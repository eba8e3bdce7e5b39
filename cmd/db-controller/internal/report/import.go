package report

import (
	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
)

// What a status has room for; the schema has the same limits.
const (
	mostImportLines     = 64
	mostImportDatabases = 256
)

// reportImport shows what the init Job has said of an import, until that is complete: then it was recorded.
func reportImport(o *observed.Cluster) {
	if !o.Imports() || o.HasRun() || o.Cluster.Status.Import != nil && o.Cluster.Status.Import.CompletedAt != nil {
		return
	}
	progress, found := o.ImportProgress(), o.ImportPreflight()
	if progress == nil && found == nil {
		return
	}
	if o.Cluster.Status.Import == nil {
		o.Cluster.Status.Import = &v1alpha1.ImportStatus{}
	}
	status := o.Cluster.Status.Import
	status.Progress = progress
	if found != nil {
		status.SourceVersion = found.SourceVersion
		status.Databases = found.Databases[:min(len(found.Databases), mostImportDatabases)]
		status.Warnings = found.Warnings[:min(len(found.Warnings), mostImportLines)]
		status.RolesWithoutPassword = found.RolesWithoutPassword[:min(len(found.RolesWithoutPassword), mostImportLines)]
	}
}

// Import is the record of an import that is complete.
func Import(o *observed.Cluster) {
	reportImport(o)
	if o.Cluster.Status.Import == nil {
		o.Cluster.Status.Import = &v1alpha1.ImportStatus{}
	}
	o.Cluster.Status.Import.Progress = nil
}
