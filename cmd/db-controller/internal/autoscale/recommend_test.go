package autoscale

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

func TestWhatIsRecommendedGrowsAtOnceAndShrinksAfterHours(t *testing.T) {
	now := time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)
	bounds := v1alpha1.ResourceBounds{Min: resource.MustParse("1Gi"), Max: resource.MustParse("8Gi")}
	for name, c := range map[string]struct {
		before string // empty: nothing was recommended
		needed time.Duration
		used   int64
		want   string
		says   string
		noted  bool // that it is needed now
	}{
		"first":                    {"", 0, 2 << 30, "2560Mi", "shop-1 used 2048Mi", true},
		"less than the least":      {"", 0, 1 << 20, "1Gi", "The min of", true},
		"more than the most":       {"", 0, 9 << 30, "8Gi", "The max of", true},
		"more than before":         {"2Gi", 0, 2 << 30, "2560Mi", "shop-1 used 2048Mi", true},
		"about the same":           {"2560Mi", time.Minute, 2<<30 - 1<<28, "2560Mi", "before", false},
		"about the same, later":    {"2560Mi", 2 * time.Hour, 2<<30 - 1<<28, "2560Mi", "before", true},
		"less for a night":         {"4Gi", 23 * time.Hour, 1 << 30, "4Gi", "before", false},
		"less for a day":           {"4Gi", 24 * time.Hour, 1 << 30, "2816Mi", "It shrinks by 30 % a day at most.", true},
		"a little less for a day":  {"1856Mi", 24 * time.Hour, 1 << 30, "1280Mi", "shop-1 used 1024Mi", true},
		"more than the bounds now": {"10Gi", time.Minute, 1 << 30, "8Gi", "which have changed", false},
		"less than the bounds now": {"512Mi", time.Minute, 1 << 20, "1Gi", "The min of", false},
	} {
		var before *v1alpha1.ResourceRecommendation
		if c.before != "" {
			before = &v1alpha1.ResourceRecommendation{Request: resource.MustParse(c.before), Reason: "before", NeededAt: metav1.NewTime(now.Add(-c.needed))}
		}
		got := Recommend(Memory, bounds, before, Load{Instance: "shop-1", Used: c.used}, now)
		if got.Request.Cmp(resource.MustParse(c.want)) != 0 || !strings.Contains(got.Reason, c.says) || got.NeededAt.Time.Equal(now) != c.noted {
			t.Errorf("%s: %s, %+v", name, got.Request.String(), got)
		}
	}
	cpu := v1alpha1.ResourceBounds{Min: resource.MustParse("100m"), Max: resource.MustParse("4")}
	got := Recommend(CPU, cpu, nil, Load{Instance: "shop-0", Used: 1000, Throttled: 0.3}, now)
	if got.Request.String() != "1900m" || !strings.Contains(got.Reason, "throttled it in 30 % of its periods") {
		t.Errorf("throttled: %+v", got)
	}
	got = Recommend(Memory, bounds, nil, Load{Instance: "shop-0", Used: 2 << 30, Limit: 2 << 30}, now)
	if !strings.Contains(got.Reason, "raise that with it") {
		t.Errorf("more than the limit: %+v", got)
	}
}
