package storage

import (
	"testing"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/agentapi"
)

// A volume that is nearly full is looked at all the time, and each look counts other bytes.
func TestWhatAVolumeUsesIsPublishedWhenItIsNews(t *testing.T) {
	const gib = 1 << 30
	before := agentapi.VolumeStatus{Bytes: 100 * gib, UsedBytes: 95 * gib, State: agentapi.VolumeAlmostFull, Cause: "The data takes 95.0 GiB."}
	for name, c := range map[string]struct {
		change func(*agentapi.VolumeStatus)
		news   bool
	}{
		"other numbers":    {func(v *agentapi.VolumeStatus) { v.UsedBytes, v.Cause = v.UsedBytes+1<<20, "The data takes 95.1 GiB." }, false},
		"a percent more":   {func(v *agentapi.VolumeStatus) { v.UsedBytes, v.Cause = v.UsedBytes+gib, "The data takes 96.0 GiB." }, true},
		"another state":    {func(v *agentapi.VolumeStatus) { v.State = agentapi.VolumeFull }, true},
		"another cause":    {func(v *agentapi.VolumeStatus) { v.Cause = "5 GiB of WAL are kept for shop-2." }, true},
		"another holder":   {func(v *agentapi.VolumeStatus) { v.Cause = "The data takes 95.0 GiB, WAL of shop-1." }, true},
		"no cause anymore": {func(v *agentapi.VolumeStatus) { v.Cause, v.State = "", "" }, true},
	} {
		published, after := &v1alpha1.InstanceStorage{}, before
		reportVolume(&before, published)
		was := *published
		c.change(&after)
		reportVolume(&after, published)
		if news := *published != was; news != c.news {
			t.Errorf("%s: published is %v: %+v", name, news, published)
		}
		if c.news && (published.Message != after.Cause || string(published.State) != after.State) {
			t.Errorf("%s: published is %+v", name, published)
		}
	}
}
