package worlds

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"howdah.dev/howdah/test/testkit/buckettest"
)

// number is a setting of the run.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func TestNoWorldBreaksAPromise(t *testing.T) {
	worlds, seed := number(t, "HOWDAH_WORLDS", 10), number(t, "HOWDAH_SEED", 1)
	began, ends := time.Now(), map[string]int{}
	for n := range worlds {
		if broken, story := simulate(t, seed+n, ends); broken != "" {
			t.Fatalf("%s\n\n%s\n\nmake simulate WORLDS=1 SEED=%d repeats it", broken, story, seed+n)
		}
	}
	t.Logf("%d worlds in %s: %v", worlds, time.Since(began).Round(time.Millisecond), ends)
}

func TestASeedRepeatsItsWorld(t *testing.T) {
	stories := [2][]string{}
	for i := range stories {
		_, story := simulate(t, 3, map[string]int{})
		stories[i] = strings.Split(story, "\n")
	}
	for i, line := range stories[0] {
		if i >= len(stories[1]) || line != stories[1][i] {
			t.Fatalf("the first time, and the second time:\n%s\n%s", line, stories[1][min(i, len(stories[1])-1)])
		}
	}
}

// simulate a world.
func simulate(t *testing.T, seed uint64, ends map[string]int) (broken, story string) {
	t.Helper()
	bucket := buckettest.New(t, 4, 5, 6)
	synctest.Test(t, func(*testing.T) {
		time.Sleep(time.Until(buckettest.Minute(60))) // the bucket is older
		w := newWorld(seed, bucket)
		broken = w.run()
		lines := 400
		if os.Getenv("HOWDAH_STORY") != "" {
			fmt.Println(w.story(100000))
		}
		story = w.story(lines)
		for end, n := range w.ends {
			ends[end] += n
		}
	})
	return broken, story
}
