package instances

import (
	"testing"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

func TestTheInitJobIsToldWhatSpecSaysOfTheDataDirectory(t *testing.T) {
	for _, c := range []struct {
		bootstrap *v1alpha1.Bootstrap
		want      agentapi.Initdb
	}{
		{nil, agentapi.Initdb{}},
		{&v1alpha1.Bootstrap{Restore: &v1alpha1.BootstrapRestore{}}, agentapi.Initdb{}},
		{&v1alpha1.Bootstrap{Initdb: &v1alpha1.BootstrapInitdb{Database: "app"}}, agentapi.Initdb{}},
		{&v1alpha1.Bootstrap{Initdb: &v1alpha1.BootstrapInitdb{LocaleProvider: v1alpha1.LocaleICU, Locale: "de", ICURules: "&a < b", WALSegmentSize: "1Gi"}},
			agentapi.Initdb{LocaleProvider: "icu", Locale: "de", ICURules: "&a < b", WALSegmentMiB: 1024}},
		{&v1alpha1.Bootstrap{Initdb: &v1alpha1.BootstrapInitdb{Encoding: "LATIN1", LocaleProvider: v1alpha1.LocaleLibc, Locale: "C", WALSegmentSize: "4Mi"}},
			agentapi.Initdb{Encoding: "LATIN1", LocaleProvider: "libc", Locale: "C", WALSegmentMiB: 4}},
	} {
		if got := initdb(c.bootstrap); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

func TestTheInitJobRunsTheSQLOfANewDatabaseOnly(t *testing.T) {
	files := postInitSQL(&v1alpha1.Bootstrap{Initdb: &v1alpha1.BootstrapInitdb{PostInitSQL: []v1alpha1.ConfigMapKey{{Name: "shop", Key: "schema.sql"}}}})
	if len(files) != 1 || files[0] != (agentapi.SQLFile{ConfigMap: "shop", Key: "schema.sql"}) {
		t.Errorf("%+v", files)
	}
	if files := postInitSQL(&v1alpha1.Bootstrap{Restore: &v1alpha1.BootstrapRestore{}}); files != nil {
		t.Errorf("of a restored one: %+v", files)
	}
}
