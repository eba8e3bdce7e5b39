package connection

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/pkg/objstore"
)

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func env(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestASettingComesFromTheFirstThatHasIt(t *testing.T) {
	file := write(t, "config.yaml", "bucket: file\nprefix: file/\nregion: file\nendpoint: https://file:9000\n")
	values := map[string]string{"HOWDAH_CONFIG": file, "HOWDAH_PREFIX": "env/", "HOWDAH_BUCKET": "env", "AWS_REGION": "aws", "AWS_ENDPOINT_URL": "https://aws"}
	f := Flags{Settings: Settings{Bucket: "flag"}}
	place, err := f.Resolve(env(values))
	want := objstore.Config{Driver: objstore.DriverMinIO, Endpoint: "https://file:9000", Region: "file", Bucket: "flag", Prefix: "env/", PathStyle: true}
	if err != nil || place.config != want {
		t.Errorf("%+v, %v", place.config, err)
	}
	wantArgs := []string{"--bucket=flag", "--driver=minio", "--path-style=true", "--ignore-environment", "--endpoint=https://file:9000", "--prefix=env/", "--region=file"}
	if !slices.Equal(place.Args(), wantArgs) {
		t.Errorf("%q", place.Args())
	}
}

func TestItsFlagsLeadToTheSamePlaceInAnyEnvironment(t *testing.T) {
	elsewhere := env(map[string]string{
		"HOWDAH_CONFIG":   write(t, "elsewhere.yaml", "bucket: elsewhere\nprefix: elsewhere/\nasOf: \"2026-03-04T05:06:07Z\"\n"),
		"HOWDAH_ENDPOINT": "https://elsewhere:9000", "HOWDAH_BUCKET": "elsewhere", "HOWDAH_PREFIX": "elsewhere/", "HOWDAH_REGION": "elsewhere",
		"HOWDAH_DRIVER": "minio", "HOWDAH_PATH_STYLE": "true", "HOWDAH_INSECURE": "true", "HOWDAH_CA_FILE": "/none", "HOWDAH_KEY_FILE": "/none",
		"HOWDAH_AS_OF": "2026-03-04T05:06:07Z", "HOWDAH_FOLDER": "/none",
		"AWS_ENDPOINT_URL": "https://elsewhere", "AWS_ENDPOINT_URL_S3": "https://elsewhere", "AWS_REGION": "elsewhere", "AWS_CA_BUNDLE": "/none",
	})
	for name, settings := range map[string]Settings{
		"AWS":      {Bucket: "b"},
		"a server": {Bucket: "b", Endpoint: "https://minio:9000"},
		"a folder": {Folder: t.TempDir()},
		"all":      {Bucket: "b", Endpoint: "http://minio:9000", Prefix: "p/", Region: "r", Driver: "aws", PathStyle: "false", Insecure: "true", KeyFile: write(t, "k", "key")},
	} {
		planned, err := (&Flags{Settings: settings, Patience: DefaultPatience}).Resolve(env(nil))
		if err != nil {
			t.Fatal(name, err)
		}
		flags, command := &Flags{}, &cobra.Command{}
		flags.Add(command)
		if err := command.ParseFlags(planned.Args()); err != nil {
			t.Fatal(name, err)
		}
		if place, err := flags.Resolve(elsewhere); err != nil || !reflect.DeepEqual(place, planned) {
			t.Errorf("%s: %q leads to %+v (%v), not to %+v", name, planned.Args(), place, err, planned)
		}
	}
}

func TestPlainHTTPIsTakenWhereItIsAllowed(t *testing.T) {
	file := write(t, "config.yaml", "bucket: b\nendpoint: http://minio:9000\ninsecure: true\n")
	for name, from := range map[string]struct {
		flags Flags
		env   map[string]string
	}{
		"a flag":          {flags: Flags{Settings: Settings{Bucket: "b", Endpoint: "http://minio:9000", Insecure: "true"}}},
		"the environment": {flags: Flags{Settings: Settings{Bucket: "b", Endpoint: "http://minio:9000"}}, env: map[string]string{"HOWDAH_INSECURE": "true"}},
		"the file":        {flags: Flags{File: file}},
	} {
		place, err := from.flags.Resolve(env(from.env))
		if err != nil || !place.config.Insecure || !slices.Contains(place.Args(), "--insecure=true") {
			t.Errorf("%s: %q, %v", name, place.Args(), err)
		}
	}
}

func TestWithoutAnEndpointAWSIsMeant(t *testing.T) {
	f := Flags{Settings: Settings{Bucket: "b"}}
	place, err := f.Resolve(env(map[string]string{"AWS_DEFAULT_REGION": "eu-central-1"}))
	if want := (objstore.Config{Driver: objstore.DriverAWS, Region: "eu-central-1", Bucket: "b"}); err != nil || place.config != want {
		t.Errorf("%+v, %v", place.config, err)
	}
}

func TestABucketOnTheCommandLineBeatsAFolderElsewhere(t *testing.T) {
	f := Flags{Settings: Settings{Bucket: "b"}}
	place, err := f.Resolve(env(map[string]string{"HOWDAH_FOLDER": "/tmp"}))
	if err != nil || place.String() != "bucket b" {
		t.Errorf("%s, %v", place, err)
	}
	f = Flags{Settings: Settings{Folder: "relative"}}
	place, err = f.Resolve(env(nil))
	if err != nil || !strings.HasPrefix(place.Args()[0], "--folder=/") {
		t.Errorf("%q, %v", place.Args(), err)
	}
}

func TestAConnectionThatCannotBeRightIsRefused(t *testing.T) {
	for name, s := range map[string]Flags{
		"no bucket":         {},
		"a bad endpoint":    {Settings: Settings{Bucket: "b", Endpoint: "minio:9000"}},
		"plain HTTP":        {Settings: Settings{Bucket: "b", Endpoint: "http://minio:9000"}},
		"an unclear leave":  {Settings: Settings{Bucket: "b", Endpoint: "http://minio:9000", Insecure: "maybe"}},
		"an unknown driver": {Settings: Settings{Bucket: "b", Driver: "gcs"}},
		"a bad path style":  {Settings: Settings{Bucket: "b", PathStyle: "maybe"}},
		"no CA file":        {Settings: Settings{Bucket: "b", CAFile: "/none"}},
		"an empty CA file":  {Settings: Settings{Bucket: "b", CAFile: write(t, "ca.crt", "none")}},
		"no file":           {File: "/none"},
		"an unknown key":    {File: write(t, "c.yaml", "bucket: b\nsecretKey: x\n")},
	} {
		if _, err := s.Resolve(env(nil)); !errors.Is(err, ErrUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestATimeIsReadOnly(t *testing.T) {
	place, err := (&Flags{Settings: Settings{Bucket: "b", AsOf: "2026-03-04T05:06:07+01:00"}}).Resolve(env(nil))
	if err != nil || place.config.AsOf == nil || !place.config.ReadOnly || !slices.Contains(place.Args(), "--as-of=2026-03-04T04:06:07Z") {
		t.Errorf("%+v, %q, %v", place.config, place.Args(), err)
	}
	for name, s := range map[string]Settings{
		"no time": {Bucket: "b", AsOf: "yesterday"}, "a folder": {Folder: "/copy", AsOf: "2026-03-04T05:06:07Z"},
	} {
		if _, err := (&Flags{Settings: s}).Resolve(env(nil)); !errors.Is(err, ErrUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
