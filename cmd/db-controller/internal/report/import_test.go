package report

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/cmd/db-controller/internal/observed"
	"howdah.dev/howdah/cmd/db-controller/internal/observed/observedtest"
	"howdah.dev/howdah/pkg/agentapi"
)

// TestWhatThePodOfAnImportSaysFitsIntoTheStatus whatever it says: a status that the API server refuses would stop the cluster.
func TestWhatThePodOfAnImportSaysFitsIntoTheStatus(t *testing.T) {
	long := strings.Repeat("é", 5_000)
	many := slices.Repeat([]string{long}, 300)
	said := func(value any) string {
		content, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	o := observedtest.Running(func(o *observed.Cluster) {
		o.Cluster.Spec.Bootstrap = &v1alpha1.Bootstrap{Import: &v1alpha1.BootstrapImport{Online: &v1alpha1.OnlineImport{}}}
		o.Cluster.Status.SystemIdentifier = ""
		o.ImportReport = &corev1.ConfigMap{Data: map[string]string{
			agentapi.ImportProgressKey:  said(v1alpha1.Progress{Phase: long, Message: long}),
			agentapi.ImportPreflightKey: said(agentapi.ImportPreflight{SourceVersion: long, Databases: many, Warnings: many, RolesWithoutPassword: many}),
			agentapi.ImportOnlineKey:    said(v1alpha1.OnlineImportStatus{State: v1alpha1.OnlineImportFollowing, Problems: many}),
		}}
	})
	if o.HasRun() {
		t.Fatal("it has run, so that nothing is shown")
	}
	reportImport(o)
	status := o.Cluster.Status.Import
	if status == nil || status.Progress == nil || len(status.Databases) != mostImportDatabases || len(status.Warnings) != mostImportLines {
		t.Fatalf("status.import is not what was said: %t", status == nil)
	}
	if status.Online == nil || len(status.Online.Problems) != mostImportProblems {
		t.Fatalf("status.import.online is %+v", status.Online)
	}
	texts := slices.Concat(status.Databases, status.Warnings, status.Online.Problems, status.RolesWithoutPassword, []string{status.SourceVersion, status.Progress.Phase, status.Progress.Message})
	for _, text := range texts {
		if n := utf8.RuneCountInString(text); n > longestImportText {
			t.Fatalf("there is a text of %d characters", n)
		}
	}
}

// TestAStateThatTheSchemaDoesNotHaveIsNotShown, nor is one of an import that isn't online.
func TestAStateThatTheSchemaDoesNotHaveIsNotShown(t *testing.T) {
	for said, online := range map[string]*v1alpha1.OnlineImport{`{"state":"Odd"}`: {}, `{"state":"Released"}`: {}, `{"state":"Following"}`: nil, `{`: {}} {
		o := observedtest.Running(func(o *observed.Cluster) {
			o.Cluster.Spec.Bootstrap = &v1alpha1.Bootstrap{Import: &v1alpha1.BootstrapImport{Online: online}}
			o.Cluster.Status.SystemIdentifier = ""
			o.ImportReport = &corev1.ConfigMap{Data: map[string]string{agentapi.ImportOnlineKey: said}}
		})
		if reportImport(o); o.Cluster.Status.Import != nil && o.Cluster.Status.Import.Online != nil {
			t.Errorf("%s shows as %+v", said, o.Cluster.Status.Import.Online)
		}
	}
}
