package pitr_test

import (
	"testing"

	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/test/testkit/pitrtest"
)

func verdictOf(t *testing.T, c *pitrtest.Case) pitr.Verdict {
	t.Helper()
	var candidates []pitr.Candidate
	for i := range c.Lineages {
		l := &c.Lineages[i]
		candidate, err := pitr.New(l.Listing()).Examine(c.Target, c.BackupID, l)
		if err != nil {
			t.Fatal(err)
		}
		candidates = append(candidates, candidate)
	}
	return pitr.Decide(candidates, c.Target, c.Facts)
}

func TestEveryCaseOfTheTableIsDecidedAsItSays(t *testing.T) {
	codes := map[pitr.Code]bool{}
	for _, c := range pitrtest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			v := verdictOf(t, &c)
			codes[v.Code] = true
			c.Want.Check(t, v)
		})
	}
	for _, code := range pitr.Codes() {
		if !codes[code] {
			t.Errorf("no case is %s", code)
		}
	}
}

func TestTheWindowsSayTheSameAsTheVerdicts(t *testing.T) {
	for _, c := range pitrtest.Cases() {
		if !c.Times() {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			l := &c.Lineages[0]
			recoverable, err := pitr.New(l.Listing()).Windows(l)
			if err != nil {
				t.Fatal(err)
			}
			c.CheckWindows(t, recoverable.Windows)
		})
	}
}
