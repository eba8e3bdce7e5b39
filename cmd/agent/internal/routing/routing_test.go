package routing

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

// bed is a desk whose instance leads in term 3.
func bed() *Desk {
	d := New(func() Facts { return Facts{Pod: "shop-0", DataGeneration: "g", Term: 3, Leads: true} })
	d.Serve(true)
	return d
}

// client asks as a pooler does, and pauses when told to, after what its transactions take.
func client(ctx context.Context, d *Desk, name string, transactions time.Duration) {
	request := agentapi.PoolerRequest{Pooler: name}
	ended := make(chan string)
	for ctx.Err() == nil {
		turn, cancel := context.WithCancel(ctx)
		answered := make(chan agentapi.PoolerAnswer, 1)
		go func(request agentapi.PoolerRequest) { answered <- d.Respond(turn, request) }(request)
		select {
		case id := <-ended: // the question is asked again, with this
			request.Paused = id
			cancel()
			<-answered
		case answer := <-answered:
			request.Known = answer.Version
			if answer.Handover != "" && answer.Handover != request.Pausing {
				request.Pausing = answer.Handover
				time.AfterFunc(transactions, func() {
					select {
					case ended <- answer.Handover:
					case <-ctx.Done():
					}
				})
			}
		}
		cancel()
	}
}

func pausing(t *testing.T, clients func(context.Context, *Desk)) (paused, late int, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		d := bed()
		clients(ctx, d)
		synctest.Wait()
		begin := time.Now()
		paused, late = d.Pause(t.Context())
		took = time.Since(begin)
		cancel()
		synctest.Wait()
	})
	return paused, late, took
}

func TestAHandoverWaitsForTheTransactionsOfAllPoolersAndNoLonger(t *testing.T) {
	paused, late, took := pausing(t, func(ctx context.Context, d *Desk) {
		go client(ctx, d, "a", 10*time.Millisecond)
		go client(ctx, d, "b", 300*time.Millisecond)
	})
	if paused != 2 || late != 0 || took != 300*time.Millisecond {
		t.Errorf("%d paused, %d late, after %v", paused, late, took)
	}
}

func TestAHandoverWithoutPoolersWaitsForNobody(t *testing.T) {
	if paused, late, took := pausing(t, func(context.Context, *Desk) {}); paused+late != 0 || took != 0 {
		t.Errorf("%d paused, %d late, after %v", paused, late, took)
	}
}

// A pooler cuts its question off to ask another one. The first may arrive later.
func TestAQuestionThatArrivesLateDelaysNoHandover(t *testing.T) {
	paused, late, took := pausing(t, func(ctx context.Context, d *Desk) {
		go func() {
			first := d.Respond(ctx, agentapi.PoolerRequest{Pooler: "a", Process: "p", Sequence: 1})
			handover := d.Respond(ctx, agentapi.PoolerRequest{Pooler: "a", Process: "p", Sequence: 1, Known: first.Version})
			say := func(sequence int64, paused string) {
				request := agentapi.PoolerRequest{Pooler: "a", Process: "p", Sequence: sequence, Known: handover.Version, Pausing: handover.Handover, Paused: paused}
				d.Respond(ctx, request)
			}
			go say(3, handover.Handover)
			synctest.Wait()
			go say(2, "")
		}()
		go client(ctx, d, "b", 300*time.Millisecond)
	})
	if paused != 2 || late != 0 || took != 300*time.Millisecond {
		t.Errorf("%d paused, %d late, after %v", paused, late, took)
	}
}

// A container that was started again has paused nobody, whatever the one before it said.
func TestAPoolerThatWasStartedAgainIsAskedAnew(t *testing.T) {
	d := bed()
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	d.handover = "1.1"
	d.Respond(cut, agentapi.PoolerRequest{Pooler: "a", Process: "p", Sequence: 9, Pausing: "1.1", Paused: "1.1"})
	d.Respond(cut, agentapi.PoolerRequest{Pooler: "a", Process: "q", Sequence: 1, Pausing: "1.1"})
	if paused, pausing, _, _ := d.progress("1.1"); paused != 0 || pausing != 1 {
		t.Errorf("%d paused, %d pausing", paused, pausing)
	}
}

func TestAPoolerThatSaysNothingDelaysAHandoverByASecond(t *testing.T) {
	paused, late, took := pausing(t, func(ctx context.Context, d *Desk) {
		go client(ctx, d, "a", 10*time.Millisecond)
		go func() { // frozen: its question stays open
			answer := d.Respond(ctx, agentapi.PoolerRequest{Pooler: "b"})
			d.Respond(ctx, agentapi.PoolerRequest{Pooler: "b", Known: answer.Version})
		}()
	})
	if paused != 1 || late != 1 || took != time.Second {
		t.Errorf("%d paused, %d late, after %v", paused, late, took)
	}
}

func TestATransactionThatDoesNotEndDelaysAHandoverByItsPatience(t *testing.T) {
	paused, late, took := pausing(t, func(ctx context.Context, d *Desk) { go client(ctx, d, "a", time.Hour) })
	if paused != 0 || late != 1 || took != Patience {
		t.Errorf("%d paused, %d late, after %v", paused, late, took)
	}
}

func TestAPoolerThatAsksForItIsAgainstAHandoverUntilItHasPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := bed()
		say := func(name string, takeBack bool, pausing, paused string) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			d.Respond(ctx, agentapi.PoolerRequest{Pooler: name, TakeBack: takeBack, Pausing: pausing, Paused: paused})
		}
		say("mute", true, "", "")
		var handover string
		time.AfterFunc(time.Millisecond, func() {
			handover = d.Respond(t.Context(), agentapi.PoolerRequest{}).Handover
			say("gone", true, handover, "")
			time.Sleep(heard + time.Second)
			say("late", true, handover, "")
			say("paused", true, handover, handover)
			say("patient", false, handover, "")
		})
		d.Pause(t.Context())
		if got := d.Against(); len(got) != 1 || got[0] != "late" {
			t.Errorf("against it are %v", got)
		}
		d.TakeBack()
		if got := d.Against(); len(got) != 0 {
			t.Errorf("once it is over, against it are %v", got)
		}
	})
}

func TestAQuestionIsAnsweredWhenSomethingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := bed()
		first := d.Respond(t.Context(), agentapi.PoolerRequest{Pooler: "a"})
		if !first.Serving || first.Term != 3 || first.Pod != "shop-0" || first.Handover != "" {
			t.Errorf("%+v", first)
		}
		begin := time.Now()
		same := d.Respond(t.Context(), agentapi.PoolerRequest{Pooler: "a", Known: first.Version})
		if took := time.Since(begin); same.Version != first.Version || took != agentapi.PoolerHold {
			t.Errorf("%+v after %v", same, took)
		}
		time.AfterFunc(time.Second, func() { d.Serve(false) })
		begin = time.Now()
		next := d.Respond(t.Context(), agentapi.PoolerRequest{Pooler: "a", Known: first.Version})
		if took := time.Since(begin); next.Serving || took != time.Second {
			t.Errorf("%+v after %v", next, took)
		}
	})
}

func TestAnInstanceThatMayNotBeThePrimaryAnyMoreServesNobody(t *testing.T) {
	d := New(func() Facts { return Facts{} })
	d.Serve(true)
	if answer := d.Respond(t.Context(), agentapi.PoolerRequest{}); answer.Serving {
		t.Errorf("%+v", answer)
	}
}

func TestAHandoverIsOverOnceThePrimaryServesAgainOrTakesItBack(t *testing.T) {
	for how, end := range map[string]func(*Desk){
		"serves again":  func(d *Desk) { d.Serve(false); d.Serve(true) },
		"takes it back": func(d *Desk) { d.TakeBack() },
	} {
		d := bed()
		d.Pause(t.Context())
		end(d)
		if answer := d.Respond(t.Context(), agentapi.PoolerRequest{}); answer.Handover != "" || !answer.Serving {
			t.Errorf("a primary that %s: %+v", how, answer)
		}
	}
}

// A primary that has just begun says more than once that clients may come. A handover may have been announced in between.
func TestAHandoverIsNotOverBecauseClientsMayComeAsBefore(t *testing.T) {
	d := bed()
	d.Pause(t.Context())
	d.Serve(true)
	if answer := d.Respond(t.Context(), agentapi.PoolerRequest{}); answer.Handover == "" || !answer.Serving {
		t.Errorf("%+v", answer)
	}
}

func TestReadersAreToldOfReplicasWithinTheirLimitAndOthersAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := bed()
		replica := func(name string, lag int64) Replica {
			return Replica{PoolerReplica: agentapi.PoolerReplica{Pod: name, Address: name}, Lag: lag}
		}
		ask := func(known string, readOnly bool) (names string, version string, took time.Duration) {
			begin := time.Now()
			answer := d.Respond(t.Context(), agentapi.PoolerRequest{Known: known, ReadOnly: readOnly, MaxLagBytes: 10})
			for _, replica := range answer.Replicas {
				names += replica.Pod
			}
			return names, answer.Version, time.Since(begin)
		}
		d.Replicas([]Replica{replica("a", 10), replica("b", 11)})
		names, version, _ := ask("", true)
		if names != "a" {
			t.Errorf("told of %q", names)
		}
		_, writer, _ := ask("", false)
		d.Replicas([]Replica{replica("a", 11), replica("b", 10)}) // nobody has come or gone
		if names, _, took := ask(version, true); names != "b" || took != 0 {
			t.Errorf("told of %q after %v", names, took)
		}
		if names, same, took := ask(writer, false); names != "" || same != writer || took != agentapi.PoolerHold {
			t.Errorf("a pooler of the primary is told of %q after %v", names, took)
		}
		_, version, _ = ask("", true)
		time.AfterFunc(time.Second, func() { d.Leaving("b", true) })
		if names, _, took := ask(version, true); names != "" || took != time.Second {
			t.Errorf("told of %q after %v, where b is about to end", names, took)
		}
		d.Leaving("b", false)
		time.AfterFunc(time.Second, func() { d.Replicas([]Replica{replica("b", 0), replica("c", 0)}) })
		if names, _, took := ask(version, true); names != "bc" || took != time.Second {
			t.Errorf("told of %q after %v", names, took)
		}
	})
}

func TestReadersAreToldHowLongAgoReplicasWereSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := bed()
		d.Replicas([]Replica{{PoolerReplica: agentapi.PoolerReplica{Pod: "a"}}})
		time.Sleep(7 * time.Second) // the server doesn't respond
		answer := d.Respond(t.Context(), agentapi.PoolerRequest{ReadOnly: true})
		if len(answer.Replicas) != 1 || answer.ReplicasUnknown || answer.ReplicasSeconds != 7 {
			t.Errorf("%+v", answer)
		}
		d.Replicas([]Replica{{PoolerReplica: agentapi.PoolerReplica{Pod: "a"}}})
		if next := d.Respond(t.Context(), agentapi.PoolerRequest{ReadOnly: true}); next.ReplicasSeconds != 0 || next.Version != answer.Version {
			t.Errorf("%+v", next)
		}
	})
}

func TestAPrimaryDoesNotKnowItsReplicasBeforeItHasLooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := bed()
		ask := func(known string) agentapi.PoolerAnswer {
			return d.Respond(t.Context(), agentapi.PoolerRequest{Known: known, ReadOnly: true})
		}
		if answer := ask(""); !answer.ReplicasUnknown || len(answer.Replicas) != 0 {
			t.Errorf("a new primary says %+v", answer)
		}
		d.Replicas([]Replica{{PoolerReplica: agentapi.PoolerReplica{Pod: "a"}}})
		d.Serve(false)
		d.Serve(true)
		answer := ask("")
		if !answer.ReplicasUnknown || len(answer.Replicas) != 0 {
			t.Errorf("one that has become the primary again says %+v", answer)
		}
		begin := time.Now()
		time.AfterFunc(time.Second, func() { d.Replicas(nil) }) // there are none
		if next := ask(answer.Version); next.ReplicasUnknown || time.Since(begin) != time.Second {
			t.Errorf("after %v: %+v", time.Since(begin), next)
		}
	})
}
