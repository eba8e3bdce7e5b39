package main

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestAPeakIsTheMostAtATimeAndNotTheMostAltogether(t *testing.T) {
	p := &peak{group: func(o client.Object) string { return o.GetLabels()["node"] }, groups: map[types.UID]string{}, counts: map[string]int{}}
	job := func(name, node string) *batchv1.Job {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: types.UID(name), Labels: map[string]string{"node": node}}}
	}
	p.see(job("a", "w0"), false)
	p.see(job("b", "w1"), false)
	p.see(job("b", "w1"), false) // again
	p.see(job("a", ""), false)   // it has ended
	p.see(job("c", "w1"), false)
	p.see(cache.DeletedFinalStateUnknown{Obj: job("b", "w1")}, true)
	p.see(job("d", "w0"), false)
	if all, inOne := p.read(); all != 2 || inOne != 2 {
		t.Errorf("at most %d, and %d on one node", all, inOne)
	}
	p.see(job("e", "w2"), false)
	if all, _ := p.read(); all != 3 {
		t.Errorf("at most %d", all)
	}
}

func TestScenariosRunInTheirOrderWhateverTheOrderOfTheirNames(t *testing.T) {
	found, err := chosen("deaf,idle")
	if err != nil || len(found) != 2 || found[0].name != "idle" || found[1].name != "deaf" {
		t.Errorf("%v, %v", found, err)
	}
	if all, err := chosen("all"); err != nil || len(all) != len(scenarios()) {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := chosen("idle,nonsense"); err == nil {
		t.Error("an unknown scenario is no error")
	}
}
