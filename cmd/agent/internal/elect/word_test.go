package elect

import (
	"testing"
	"time"

	"howdah.dev/howdah/pkg/agentapi"
)

func byMembers(config Config) Config {
	config.ByWord = true
	return config
}

// answer the question that was asked last, or this one.
func (i *instance) answers(question *WordQuestion, from ...string) *instance {
	for _, name := range from {
		i.core.HeardWord(i.now, name, question.Request.Failsafe.Term, question.Request.Number)
	}
	i.step()
	return i
}

// talks lets time pass, with answers of these and with writes that are confirmed at once.
func (i *instance) talks(d time.Duration, from ...string) *instance {
	for end := i.now + d; i.now < end; {
		i.passes(50 * time.Millisecond)
		if question := i.acts.Word; question != nil {
			i.answers(question, from...)
		}
		if i.write != nil {
			i.writes(Written)
		}
	}
	return i
}

// byItsWord is a holder whose lease is kept by the word of its members.
func byItsWord(t *testing.T, config Config, record Record) *instance {
	t.Helper()
	i := leader(t, byMembers(config), record)
	i.follow(names(record.Members)...)
	i.talks(limits.Word.Prove+2*time.Second, names(record.Members)...)
	if i.core.Record().Word != limits.Word.Expire {
		t.Fatalf("after all have answered for long the Lease is %+v", i.core.Record())
	}
	return i
}

func TestNobodyIsAskedForItsWordUnlessThatIsWanted(t *testing.T) {
	a := leader(t, required(1), held(1, "b", "c"))
	for range 600 {
		a.passes(50 * time.Millisecond)
		if a.acts.Word != nil {
			t.Fatalf("%+v", a.acts.Word)
		}
		if a.write != nil && a.writes(Written).Word != 0 {
			t.Fatal("the Lease is kept by word")
		}
	}
}

func TestAHolderWhoseMembersAnswerWritesNothing(t *testing.T) {
	a := byItsWord(t, required(1), held(1, "b", "c"))
	version := a.core.Record().Version
	a.talks(limits.Word.Keep-3*time.Second, "b", "c").wants(Lead)
	if now := a.core.Record().Version; now != version {
		t.Errorf("version %s became %s", version, now)
	}
	a.talks(4*time.Second, "b", "c")
	if now := a.core.Record().Version; now == version {
		t.Error("it is not written even now and then")
	}
}

func TestAWordCountsFromWhenItWasAskedFor(t *testing.T) {
	a := byItsWord(t, required(1), held(1, "b", "c"))
	for a.acts.Word == nil {
		a.passes(10 * time.Millisecond)
	}
	question, sent := a.acts.Word, a.now
	a.passes(400 * time.Millisecond)
	a.answers(question, "b", "b")
	if until := a.acts.Want.Until; until >= sent+limits.Word.Fence {
		t.Error("the word of one is enough")
	}
	a.answers(question, "c")
	if until := a.acts.Want.Until; until != sent+limits.Word.Fence {
		t.Errorf("until %s after it was asked", until-sent)
	}
}

func TestAnAnswerFromAnotherTermOrOfLaterDoesNotCount(t *testing.T) {
	a := byItsWord(t, required(1), held(1, "b"))
	until := a.acts.Want.Until
	a.passes(300 * time.Millisecond)
	a.core.HeardWord(a.now, "b", a.core.Record().Term-1, a.now)
	a.core.HeardWord(a.now, "b", a.core.Record().Term, a.now+1)
	a.core.HeardWord(a.now, "b", a.core.Record().Term, a.core.begun)
	if a.step(); a.acts.Want.Until != until {
		t.Errorf("it continues for %s more", a.acts.Want.Until-until)
	}
}

func TestAMemberThatFallsSilentCostsAWrite(t *testing.T) {
	a := byItsWord(t, required(1), held(1, "b", "c"))
	proven := a.core.asks.proven(members("b", "c"))
	for a.write == nil && a.now < proven+limits.Word.Fence {
		a.passes(20 * time.Millisecond)
		if a.acts.Word != nil {
			a.answers(a.acts.Word, "b")
		}
	}
	record := a.takes()
	if record.Word != 0 {
		t.Fatalf("%+v", record)
	}
	same(t, "members", record.Members, "b", "c")
	sent := a.now
	a.passes(time.Second)
	if until := a.acts.Want.Until; until != proven+limits.Word.Fence {
		t.Errorf("before the write is confirmed, it continues for %s since all have answered", until-proven)
	}
	a.writes(Written)
	if until := a.acts.Want.Until; until != sent+limits.Fence {
		t.Errorf("it continues for %s since the write", until-sent)
	}
	a.renews(30 * time.Second)
	a.wants(Lead)
}

func TestAHolderThatCanNotWriteIsFencedOnceAMemberIsSilent(t *testing.T) {
	a := byItsWord(t, required(1), held(1, "b", "c"))
	proven := a.core.asks.proven(members("b", "c"))
	for a.now < proven+limits.Word.Fence+time.Millisecond {
		a.passes(20 * time.Millisecond)
		if a.acts.Word != nil {
			a.answers(a.acts.Word, "b")
		}
		if a.write != nil {
			a.writes(Unknown)
		}
	}
	a.wants(Stop)
}

func TestAHolderThatCanNotWriteGoesOnWhileAllAnswer(t *testing.T) {
	a := byItsWord(t, required(1), held(1, "b", "c"))
	silent := a.now + time.Second // one is, and then answers again: the Lease may name either way
	for end := a.now + time.Minute; a.now < end; {
		a.passes(20 * time.Millisecond)
		if q := a.acts.Word; q != nil && a.now < silent {
			a.answers(q, "b")
		} else if q != nil {
			a.answers(q, "b", "c")
		}
		if q := a.acts.Failsafe; q != nil {
			a.core.HeardFailsafe(q.ID, "b", true)
			a.core.HeardFailsafe(q.ID, "c", true)
		}
		if a.write != nil {
			a.writes(Unknown)
			a.sees(*a.core.Record())
		}
		a.wants(Lead)
	}
}

func TestAHolderThatSeesItsOwnWayBackGoesOn(t *testing.T) {
	a := byItsWord(t, required(1), held(1, "b", "c"))
	a.talks(30*time.Second, "b", "c")
	for a.write == nil {
		a.passes(20 * time.Millisecond)
	}
	sent, record := a.now, a.takes()
	record.Version = "900"
	a.sees(record).wants(Lead) // before the answer to the write is there
	if until := a.acts.Want.Until; until != sent+limits.Fence {
		t.Errorf("it continues for %s since the write", until-sent)
	}
	a.writes(Unknown)
	if a.wants(Lead); a.acts.Want.Until != sent+limits.Fence {
		t.Errorf("it continues for %s since the write", a.acts.Want.Until-sent)
	}
}

func TestAMemberThatDoesNotAnswerJoinsWithAWriteThatTakesTheWordBack(t *testing.T) {
	a := byItsWord(t, asynchronous(), held(0, "b"))
	a.follow("b", "c")
	a.talks(time.Second, "b")
	r := a.core.Record()
	same(t, "members", r.Members, "b", "c")
	if r.Word != 0 {
		t.Error("c may not even know of a word")
	}
	a.talks(time.Minute, "b").wants(Lead)
	if a.core.Record().Word != 0 {
		t.Error("c has never answered")
	}
}

func TestAMemberThatAnswersJoinsByWord(t *testing.T) {
	a := byItsWord(t, asynchronous(), held(0, "b"))
	a.follow("b", "c")
	for a.acts.Word == nil {
		a.passes(10 * time.Millisecond)
	}
	same(t, "asked", a.acts.Word.Members, "b", "c")
}

// word of a lease that a keeps by it.
func byWordOf(list ...string) Record {
	r := held(1, list...)
	r.Word, r.Sequence = limits.Word.Expire, 7
	return r
}

func wordRequest(sequence int64) WordRequest {
	return WordRequest{Failsafe: request(3), Sequence: sequence, Number: time.Second, Expire: limits.Word.Expire}
}

func TestAMemberKeepsItsWordAndTakesTheLeaseThen(t *testing.T) {
	b := start(t, "b", required(1)).sees(byWordOf("b")).serves(Replica, 1, 100)
	question := wordRequest(7)
	for range 60 {
		question.Number++
		b.core.AskedWord(b.now, question)
		b.passes(time.Second).waits()
	}
	question.Number++
	if !b.core.AskedWord(b.now, question) || !b.core.Promised(b.now) {
		t.Fatal("it gives no word")
	}
	b.passes(limits.Word.Expire - time.Millisecond).waits()
	b.passes(time.Millisecond).takes()
}

func TestAQuestionThatIsRepeatedGetsNoWord(t *testing.T) {
	b := start(t, "b", required(1)).sees(byWordOf("b")).serves(Replica, 1, 100)
	question, later := wordRequest(7), wordRequest(7)
	question.Number, later.Number = 5, 6
	if !b.core.AskedWord(b.now, question) || !b.core.AskedWord(b.now, later) || b.core.AskedWord(b.now, question) || b.core.AskedWord(b.now, later) {
		t.Error("only the first of each counts")
	}
	former := wordRequest(7)
	former.Failsafe.Term, former.Number = 2, 9
	if b.core.AskedWord(b.now, former) {
		t.Error("it is of a term before")
	}
}

func TestNobodyGivesItsWordForALeaseThatWasRolledBack(t *testing.T) {
	b := start(t, "b", required(1)).sees(byWordOf("b")).serves(Replica, 1, 100)
	older := byWordOf("b")
	older.Version, older.Sequence = "99", 6
	b.sees(older)
	if b.core.AskedWord(b.now, wordRequest(7)) {
		t.Error("the holder will not hear of it")
	}
}

func TestALeaseByWordThatWasEditedIsWrittenAgainSoon(t *testing.T) {
	a := byItsWord(t, required(1), held(1, "b", "c"))
	a.talks(10*time.Second, "b", "c")
	a.sees(Record{Version: "800"})
	a.passes(limits.Retry)
	if r := a.takes(); r.Version != "800" || r.Holder != "a" {
		t.Errorf("%+v", r)
	}
}

func TestAHolderThatReadsAnOlderVersionWritesItsOwnSoon(t *testing.T) {
	a := byItsWord(t, required(1), held(1, "b", "c"))
	a.talks(10*time.Second, "b", "c")
	a.sees(held(1, "b", "c"))
	a.passes(limits.Retry)
	a.takes()
}

func TestWhoWasNotAskedInTheNameOfThisVersionWaitsForLonger(t *testing.T) {
	for name, ask := range map[string]func(*instance){
		"a restart":           func(*instance) {},
		"the version before":  func(b *instance) { b.core.AskedWord(b.now, wordRequest(6)) },
		"a version from then": func(b *instance) { b.core.AskedWord(b.now, wordRequest(8)) },
	} {
		b := start(t, "b", required(1)).sees(byWordOf("b")).serves(Replica, 1, 100)
		ask(b)
		began := b.now
		for b.write == nil && b.now < began+time.Minute {
			b.passes(100 * time.Millisecond)
		}
		if waited := b.now - began; waited < limits.Expire || waited > limits.Expire+time.Second {
			t.Errorf("%s: it takes the lease after %s", name, waited)
		}
	}
}

func TestAWordIsOverOnceItsHolderHasGivenTheLeaseUp(t *testing.T) {
	b := start(t, "b", required(1)).sees(byWordOf("b", "c")).serves(Replica, 1, 100)
	b.core.AskedWord(b.now, wordRequest(7))
	r := givenUp(1, "b", true, "b", "c")
	r.Sequence = 8
	b.sees(r).takes()
}

func TestAWordIsOverOnceItsHolderIsKnownToHaveEnded(t *testing.T) {
	b := start(t, "b", required(1)).sees(byWordOf("b")).serves(Replica, 1, 100)
	b.core.AskedWord(b.now, wordRequest(7))
	b.passes(100 * time.Millisecond).waits()
	b.core.HolderEnded(b.now, 3)
	b.step()
	b.takes()
}

func TestTheLastHolderInANewPodWaitsForMembersThatMayStillFollowTheOldOne(t *testing.T) {
	a := start(t, "a", required(1))
	a.core.self.UID = "a-2"
	a.sees(byWordOf("b")).serves(Down, 1, 100)
	a.passes(limits.Expire)
	a.passes(limits.Word.Others - time.Second).waits()
	a.hearsPosition(agentapi.Position{Pod: "b", Promised: true}).waits()
	a.passes(2 * time.Second).waits()
	a.hearsPosition(agentapi.Position{Pod: "b"}).takes()
}

func TestWhoIsNoMemberWaitsUntilTheLeaseWouldHaveBeenWrittenAgain(t *testing.T) {
	b := start(t, "b", required(1))
	b.core.self.Generation = "g2"
	config := required(1)
	config.Begins = "b"
	b.core.Configure(config)
	b.sees(byWordOf("c")).serves(Down, 1, 100)
	b.passes(limits.Word.Others - time.Second).waits()
	b.passes(time.Second).takes()
}

func TestTheLimitsOfAWordAreInOrder(t *testing.T) {
	for _, profile := range profiles {
		l := LimitsOf(profile).Word
		dead := (l.Fence + Margin + fenceTime).Seconds()
		if clocks := (l.Expire.Seconds() - dead) / (l.Expire.Seconds() + dead); clocks < 0.05 {
			t.Errorf("%s: clocks may be wrong by %.1f %% only", profile, 100*clocks)
		}
		if slowest := l.Silent + 2*time.Second; slowest >= l.Fence { // a request may take two seconds
			t.Errorf("%s: with a slow API server a silent member fences the primary: it takes %s to continue without it", profile, slowest)
		}
		if l.Silent < 4*l.Ask || l.Keep >= l.Others || l.Others > longestDuration {
			t.Errorf("%s: %+v", profile, l)
		}
	}
}
