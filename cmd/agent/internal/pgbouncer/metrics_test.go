package pgbouncer

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestARefusedConfigurationIsAMetric(t *testing.T) {
	p := New(Options{})
	for _, c := range []struct {
		refused *setup
		want    string
	}{{nil, "0"}, {&setup{}, "1"}, {nil, "0"}} {
		p.refuses(c.refused)
		recorder := httptest.NewRecorder()
		Metrics(p).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if body := recorder.Body.String(); !strings.Contains(body, "\nhowdah_pooler_config_refused "+c.want+"\n") {
			t.Errorf("it is not %s: %s", c.want, body)
		}
	}
}

func TestPoolsWhoseNamesAreNoTextHaveNoMetrics(t *testing.T) {
	rows := []map[string]string{
		{"database": "\xff", "user": "app"}, {"database": "shop", "user": "\xff"}, {"database": "pgbouncer", "user": "pgbouncer"},
		{"database": "shop", "user": "app"}, {"database": "größe"},
	}
	if got := shown(rows); len(got) != 2 || got[0]["user"] != "app" || got[1]["database"] != "größe" {
		t.Errorf("there are metrics of %q", got)
	}
}
