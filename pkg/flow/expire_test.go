package flow_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/test/testkit/fakeapi"
)

func TestOnlyWhatIsStillAsItWasSeenExpires(t *testing.T) {
	ended := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		now     time.Time
		ttl     *int32
		change  func(*v1alpha1.Upgrade)
		deleted bool
		after   time.Duration
	}{
		"its time is over":           {ended.Add(time.Minute), ptr.To[int32](60), func(*v1alpha1.Upgrade) {}, true, 0},
		"its time is not over":       {ended.Add(time.Minute), ptr.To[int32](90), func(*v1alpha1.Upgrade) {}, false, 30 * time.Second},
		"it has no time to live":     {ended.Add(time.Hour), nil, func(*v1alpha1.Upgrade) {}, false, 0},
		"it was replaced meanwhile":  {ended.Add(time.Minute), ptr.To[int32](60), func(u *v1alpha1.Upgrade) { u.UID = "other" }, false, time.Second},
		"somebody gave it more time": {ended.Add(time.Minute), ptr.To[int32](60), func(u *v1alpha1.Upgrade) { u.ResourceVersion = "2" }, false, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			seen := &v1alpha1.Upgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "up", UID: "u", ResourceVersion: "1"}}
			now := seen.DeepCopy()
			c.change(now)
			api := fakeapi.New(now)
			outcome := flow.Expire(t.Context(), api, seen, metav1.NewTime(ended), c.ttl, c.now)
			err := api.Get(t.Context(), client.ObjectKeyFromObject(seen), &v1alpha1.Upgrade{})
			if (err != nil) != c.deleted || outcome.After != c.after || outcome.Err != nil {
				t.Errorf("%v, %+v", err, outcome)
			}
		})
	}
}
