package hostiletest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/folder"
	"howdah.dev/howdah/pkg/objstore/open"
	"howdah.dev/howdah/pkg/objstore/retry"
)

// Peaceful is the name of a place that means no harm, beside those that do.
const Peaceful = "peaceful"

const placesVariable = "HOSTILE_PLACES"

// Places are all hostile buckets and servers that a controller may meet, and one that is not hostile, under names of namespaces.
func Places(t *testing.T) map[string]string {
	t.Helper()
	buckets := ForControllers(t)
	places := map[string]string{Peaceful: Harmless(t)}
	name := func(kind string) string { return strings.ToLower(strings.ReplaceAll(kind, " ", "-")) }
	for kind, place := range buckets.All() {
		places[name(kind)] = place
	}
	for kind, handler := range Servers() {
		server := httptest.NewServer(handler)
		t.Cleanup(func() {
			server.CloseClientConnections()
			server.Close()
		})
		places[name(kind)] = server.URL
	}
	return places
}

// InChild runs a test of the same program in a process of its own with places, and returns what that says. Its memory stays below the limit
// of a controller.
func InChild(t *testing.T, test string, places map[string]string, into any) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	given, err := json.Marshal(places)
	must(t, err)
	said := filepath.Join(t.TempDir(), "said")
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second) // with too much in memory, the garbage collector would work on and on
	defer cancel()
	child := exec.CommandContext(ctx, self, "-test.run=^"+test+"$")
	child.Env = append(os.Environ(), placesVariable+"="+string(given), "HOSTILE_SAID="+said,
		"GOGC=25", fmt.Sprintf("GOMEMLIMIT=%dKiB", Limit(t)/100*90)) // as controllers do
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	content, err := os.ReadFile(said)
	must(t, err)
	answer := struct {
		PeakKiB int
		Said    json.RawMessage
	}{}
	must(t, json.Unmarshal(content, &answer))
	t.Logf("%d KiB", answer.PeakKiB)
	if answer.PeakKiB > Limit(t) {
		t.Errorf("it took %d MiB of memory", answer.PeakKiB>>10)
	}
	must(t, json.Unmarshal(answer.Said, into))
}

// GivenPlaces are those of a child. The test is skipped in any other process.
func GivenPlaces(t *testing.T) (places map[string]string) {
	t.Helper()
	if json.Unmarshal([]byte(os.Getenv(placesVariable)), &places) != nil {
		t.Skip("only for the measurement")
	}
	return places
}

// Say is what a child answers.
func Say(t *testing.T, said any) {
	t.Helper()
	content, err := json.Marshal(map[string]any{"PeakKiB": Peak(t), "Said": said})
	must(t, err)
	must(t, os.WriteFile(os.Getenv("HOSTILE_SAID"), content, 0o600))
}

// Peak is the most memory that this process has had, in KiB.
func Peak(t *testing.T) int {
	t.Helper()
	memory, err := os.ReadFile("/proc/self/status")
	must(t, err)
	peak := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(memory)
	if peak == nil {
		t.Fatal("no peak of memory")
	}
	kibibytes, err := strconv.Atoi(string(peak[1]))
	must(t, err)
	return kibibytes
}

// OpenPlace opens a folder or a server.
func OpenPlace(ctx context.Context, place string) (objstore.Store, error) {
	if strings.HasPrefix(place, "http://") {
		return open.With(ctx, objstore.Config{
			Driver: objstore.DriverAWS, Endpoint: place, Insecure: true, Region: "us-east-1", Bucket: "bucket", PathStyle: true,
			Credentials: &objstore.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"},
		}, retry.Policy{MaxElapsed: time.Nanosecond})
	}
	store, err := folder.Open(place)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", place, err)
	}
	return open.Sealed(store, Keys(place)), nil
}
