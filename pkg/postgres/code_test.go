package postgres_test

import (
	"reflect"
	"testing"

	"howdah.dev/howdah/pkg/postgres"
)

func TestLinesThatRunCodeAreDropped(t *testing.T) {
	conf := "work_mem = '5MB'\n  Shared_Preload_Libraries = '/data/evil'\narchive_command='curl x|sh'\n# archive_command = 'x'\ninclude 'more.conf'\n" +
		"plperl.on_init='x'\nplperl.use_strict = on\nsession_preload_libraries'x'\narchive_command 'again'\nlog_min_messages = info"
	kept, dropped := postgres.WithoutCode(conf)
	if want := "work_mem = '5MB'\n# archive_command = 'x'\nplperl.use_strict = on\nlog_min_messages = info"; kept != want {
		t.Errorf("kept %q", kept)
	}
	want := []string{"shared_preload_libraries", "archive_command", "include", "plperl.on_init", "session_preload_libraries"}
	if !reflect.DeepEqual(dropped, want) {
		t.Errorf("dropped %q", dropped)
	}
}
