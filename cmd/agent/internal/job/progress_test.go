package job

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

func TestProgressSaysRateAndTimeLeft(t *testing.T) {
	now := time.Unix(1000, 0)
	r := &Reporter{object: agentapi.Object{Kind: "Backup", Name: "b", UID: "u"}, now: func() time.Time { return now }}
	r.body(Progress{Phase: "Copying", DoneBytes: 0, TotalBytes: 1000})
	now = now.Add(2 * time.Second)
	got := r.body(Progress{Phase: "Copying", DoneBytes: 200, TotalBytes: 1000}).Status.Progress
	if got.Percent != 20 || got.BytesPerSecond != 100 || got.SecondsLeft != 8 {
		t.Errorf("%+v", got)
	}
	now = now.Add(2 * time.Second)
	if got := r.body(Progress{Phase: "Committing", DoneBytes: 1000, TotalBytes: 1000}).Status.Progress; got.Percent != 100 || got.BytesPerSecond != 0 || got.SecondsLeft != 0 {
		t.Errorf("in the next phase: %+v", got)
	}
}

func TestProgressNamesTheObjectByUID(t *testing.T) {
	r := &Reporter{object: agentapi.Object{Kind: "Backup", Name: "b", UID: "u"}, now: func() time.Time { return time.Unix(0, 0) }}
	raw, err := json.Marshal(r.body(Progress{Phase: "Copying"}))
	want := `{"apiVersion":"howdah.dev/v1alpha1","kind":"Backup","metadata":{"name":"b","uid":"u"},"status":{"progress":{"phase":"Copying","updatedAt":"1970-01-01T00:00:00Z"}}}`
	if err != nil || string(raw) != want {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestReportsAreBoundedAndTheLastIsSent(t *testing.T) {
	sent := make(chan Progress, 100)
	apply := func(_ context.Context, body any) error {
		p := body.(applyBody).Status.Progress
		sent <- Progress{Phase: p.Phase, DoneBytes: p.DoneBytes}
		return nil
	}
	r := startReporter(t.Context(), agentapi.Object{}, apply, time.Now, time.Hour)
	r.Report(Progress{Phase: "Copying", DoneBytes: 1})
	first := <-sent
	for i := range 50 {
		r.Report(Progress{Phase: "Copying", DoneBytes: int64(i)})
	}
	r.Close()
	last := <-sent
	if first.DoneBytes != 1 || last.DoneBytes != 49 || len(sent) != 0 {
		t.Errorf("first %+v, last %+v, and %d more", first, last, len(sent))
	}
}
