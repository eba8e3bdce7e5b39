package agentclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"howdah.dev/howdah/cmd/db-controller/internal/pace"
)

func TestTheErrorOfASilentAgentIsShort(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/v1/status", port), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, refused := http.DefaultClient.Do(request)
	if refused == nil {
		t.Fatal("somebody answers")
	}
	for name, c := range map[string]struct {
		err       error
		want      string
		unreached bool
	}{
		"nobody listens":      {fmt.Errorf("call agent of shop-0: %w", refused), fmt.Sprintf("dial tcp 127.0.0.1:%d: connect: connection refused", port), true},
		"no answer":           {fmt.Errorf("call agent of shop-0: %w", context.DeadlineExceeded), "127.0.0.1:8443 doesn't answer in time", true},
		"another answer":      {fmt.Errorf("%w of shop-0: 500", ErrResponse), "unexpected response of the agent of shop-0: 500", false},
		"one that is no news": {errors.New(strings.Repeat("x", 300)), strings.Repeat("x", longestError) + "…", false},
	} {
		got := silenceOf(Target{IP: "127.0.0.1"}, c.err, time.Time{})
		if got.Error != c.want || got.Unreached != c.unreached {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAnAgentIsSilentFromTheFirstQuestionInVainToTheNextAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agents := newCrowd()
		agents.deaf["10.0.0.1"] = true
		pool, _ := newTestPool(agents)
		ask := func() Answers {
			pool.Look(shop, instancesAt("10.0.0.1", "10.0.0.2"))
			pool.Demand(shop)
			time.Sleep(2 * suspectTimeLimit)
			synctest.Wait()
			return pool.Look(shop, instancesAt("10.0.0.1", "10.0.0.2"))
		}
		first := ask().Silent
		if len(first) != 1 || first["pod-10.0.0.1"].Error != "10.0.0.1:8443 doesn't answer in time" {
			t.Fatalf("%+v", first)
		}
		time.Sleep(pace.RestInterval)
		if again := ask().Silent["pod-10.0.0.1"]; again != first["pod-10.0.0.1"] {
			t.Errorf("%+v after %+v", again, first)
		}
		agents.set(func() { delete(agents.deaf, "10.0.0.1") })
		if now := ask(); len(now.Silent) != 0 || len(now.ByPod) != 2 {
			t.Errorf("%+v", now)
		}
	})
}
