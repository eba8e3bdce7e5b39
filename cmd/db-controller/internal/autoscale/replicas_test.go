package autoscale

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

var begun = time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)

// used is the load of replicas that each use so much of their CPU, with a target of 60 %.
func used(percent ...int64) ReplicaLoad {
	return ReplicaLoad{
		Replicas: int32(len(percent)), Least: 1, Most: 6, LeastWhy: "It is the min.",
		Measures: []Measure{{Name: "their CPU", Target: 60, Used: percent}},
	}
}

func TestAsManyReplicasAreRecommendedAsTheLoadAsksFor(t *testing.T) {
	for name, c := range map[string]struct {
		before int32 // 0: nothing was recommended
		needed time.Duration
		load   ReplicaLoad
		want   int32
		says   string
		noted  bool
	}{
		"first":                            {0, 0, used(50, 50), 2, "The replicas use 50 % of their CPU (target 60 %) on average.", true},
		"first, with little load":          {0, 0, used(5, 5), 2, "5 %", true},
		"first, with much":                 {0, 0, used(90, 90), 3, "90 %", true},
		"much more":                        {2, time.Minute, used(100, 100), 4, "100 %", true},
		"a little more":                    {2, time.Minute, used(64, 64), 2, "before", false},
		"a little more, later":             {2, 30 * time.Minute, used(64, 64), 2, "before", true},
		"more than the most":               {6, time.Minute, used(90, 90, 90, 90, 90, 90), 6, "before", false},
		"up to the most":                   {5, time.Minute, used(100, 100, 100, 100, 100), 6, "spec.autoscale.replicas.max applies.", true},
		"less for a while":                 {4, 59 * time.Minute, used(10, 10, 10, 10), 4, "before", false},
		"less for an hour":                 {4, time.Hour, used(10, 10, 10, 10), 3, "Fewer have been enough for 1h0m0s; one is removed at a time.", true},
		"less, but not by a whole replica": {3, 9 * time.Hour, used(35, 35, 35), 3, "before", true},
		"less than the least":              {1, 9 * time.Hour, used(1), 1, "before", true},
		"bounds that are lower now":        {8, time.Minute, used(90, 90), 6, "90 %", false},
		"one of two measures": {2, time.Minute, ReplicaLoad{Replicas: 2, Least: 1, Most: 6, Measures: []Measure{
			{Name: "their CPU", Target: 60, Used: []int64{5, 5}}, {Name: "their sessions", Target: 70, Used: []int64{90, 90}},
		}}, 3, "5 % of their CPU (target 60 %) and 90 % of their sessions (target 70 %)", true},
		"beside a delayed one": {3, time.Minute, ReplicaLoad{Replicas: 3, Late: 1, Least: 1, Most: 6, Measures: used(90, 90).Measures}, 4, "90 %", true},
		"no replica yet":       {0, 0, ReplicaLoad{Least: 2, Most: 4, LeastWhy: "It is the min.", Measures: used().Measures}, 2, "It is the min.", true},
		"fewer than the least": {1, time.Minute, ReplicaLoad{Replicas: 1, Least: 2, Most: 4, LeastWhy: "It is the min.", Measures: used(5).Measures}, 2, "It is the min.", false},
	} {
		var before *v1alpha1.ReplicasRecommendation
		if c.before > 0 {
			before = &v1alpha1.ReplicasRecommendation{Replicas: c.before, Reason: "before", NeededAt: metav1.NewTime(begun.Add(-c.needed))}
		}
		got := RecommendReplicas(v1alpha1.AutoscaleReplicas{}, before, c.load, begun)
		if got.Replicas != c.want || !strings.Contains(got.Reason, c.says) || got.NeededAt.Time.Equal(begun) != c.noted {
			t.Errorf("%s: %+v", name, got)
		}
	}
	apply := v1alpha1.AutoscaleReplicas{Mode: v1alpha1.AutoscaleApply}
	got := RecommendReplicas(apply, &v1alpha1.ReplicasRecommendation{Replicas: 4, NeededAt: metav1.NewTime(begun)}, used(50, 50), begun)
	if got.Replicas != 2 {
		t.Errorf("what is not there yet and not needed any more: %+v", got)
	}
}

// world has replicas that share a load, and gets one more or less where that is recommended, every ten minutes at most.
type world struct {
	now      time.Time
	replicas int32
	said     *v1alpha1.ReplicasRecommendation
	changed  time.Time
	ups      int
	downs    int
}

// pass lets a time pass under so much load of all together; overhead is what each replica uses besides.
func (w *world) pass(took time.Duration, load, overhead int64) {
	w.now = w.now.Add(took)
	percent := make([]int64, w.replicas)
	for i := range percent {
		percent[i] = min(100, load/int64(w.replicas)+overhead)
	}
	w.said = RecommendReplicas(v1alpha1.AutoscaleReplicas{Mode: v1alpha1.AutoscaleApply}, w.said, used(percent...), w.now)
	if w.now.Sub(w.changed) < applyPause {
		return
	}
	switch {
	case w.said.Replicas > w.replicas:
		w.replicas, w.changed, w.ups = w.replicas+1, w.now, w.ups+1
	case w.said.Replicas < w.replicas:
		w.replicas, w.changed, w.downs = w.replicas-1, w.now, w.downs+1
	}
}

// TestTheNumberOfReplicasSettlesUnderEveryLoad from every number of them, and after every other load: it never goes both up and down.
func TestTheNumberOfReplicasSettlesUnderEveryLoad(t *testing.T) {
	const tick = 5 * time.Minute
	for replicas := int32(1); replicas <= 6; replicas++ {
		for load := int64(0); load <= 700; load += 25 {
			for _, overhead := range []int64{0, 20} {
				for _, previous := range []int64{0, 300} {
					w := &world{now: begun, replicas: replicas}
					for range 18 {
						w.pass(tick, previous, overhead)
					}
					w.ups, w.downs = 0, 0
					for range 12 * 18 {
						w.pass(tick, load, overhead)
					}
					settled := w.replicas
					for range 12 * 3 {
						w.pass(tick, load, overhead)
					}
					if w.ups > 0 && w.downs > 0 || w.replicas != settled {
						t.Fatalf("from %d replicas and a load of %d, under one of %d beside %d: %d times up, %d times down", replicas, previous, load, overhead, w.ups, w.downs)
					}
				}
			}
		}
	}
}

func TestALoadThatComesAndGoesWithinTheWindowRemovesNothing(t *testing.T) {
	for _, period := range []int{5, 15, 30, 50} {
		w := &world{now: begun, replicas: 1}
		for minute := range 48 * 60 {
			load := int64(20)
			if minute%period < 5 {
				load = 200
			}
			w.pass(time.Minute, load, 0)
		}
		if w.downs > 0 {
			t.Errorf("every %d minutes: %d times up, %d times down", period, w.ups, w.downs)
		}
	}
}

// TestALoadThatIsNotKnownRemovesNothing: a replica was added an hour ago, and its clone took most of that. What was measured for five minutes
// since then says nothing of the hour.
func TestALoadThatIsNotKnownRemovesNothing(t *testing.T) {
	spec := v1alpha1.AutoscaleReplicas{}
	r := RecommendReplicas(spec, nil, used(90, 90), begun)
	for minute := range 55 {
		r = KeepReplicas(spec, r, begun.Add(time.Duration(minute)*time.Minute))
	}
	if r = RecommendReplicas(spec, r, used(10, 10, 10), begun.Add(time.Hour)); r.Replicas != 3 {
		t.Errorf("fewer have not been known to be enough for an hour: %+v", r)
	}
	if r = RecommendReplicas(spec, r, used(10, 10, 10), begun.Add(2*time.Hour)); r.Replicas != 2 {
		t.Errorf("fewer have been enough for an hour: %+v", r)
	}
	if r := KeepReplicas(spec, nil, begun); r != nil {
		t.Errorf("nothing was recommended: %+v", r)
	}
}
