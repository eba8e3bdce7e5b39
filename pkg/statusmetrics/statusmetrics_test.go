package statusmetrics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"howdah.dev/apis/v1alpha1"
)

var bytes = prometheus.NewDesc("test_bytes", "Bytes.", []string{"backup"}, nil)

func collector(t *testing.T, listing error) prometheus.Collector {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	one := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "one"}}
	two := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "two"}}
	two.Status.StoredBytes = 2
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(one, two).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if listing != nil {
				return listing
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
	return Collector[*v1alpha1.Backup]{
		Of: "backups", Reader: reader, List: &v1alpha1.BackupList{},
		Measure: func(b *v1alpha1.Backup, send Send) { send(bytes, float64(b.Status.StoredBytes), b.Name) },
	}
}

const aboutListed = `
# HELP howdah_status_listed 1 if the objects that these metrics describe could be listed for this scrape, 0 if not, and the metrics are missing.
# TYPE howdah_status_listed gauge
`

func TestEveryObjectIsMeasured(t *testing.T) {
	want := aboutListed + `howdah_status_listed{of="backups"} 1
# HELP test_bytes Bytes.
# TYPE test_bytes gauge
test_bytes{backup="one"} 0
test_bytes{backup="two"} 2
`
	if err := testutil.CollectAndCompare(collector(t, nil), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestThatNothingCanBeListedIsAMetric(t *testing.T) {
	want := aboutListed + "howdah_status_listed{of=\"backups\"} 0\n"
	if err := testutil.CollectAndCompare(collector(t, errors.New("the cache is not filled")), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNotKnownIsNotSent(t *testing.T) {
	var sent []string
	send := Send(func(_ *prometheus.Desc, value float64, labels ...string) {
		sent = append(sent, fmt.Sprint(strings.Join(labels, "/"), "=", value))
	}).With("demo").With("one")
	early, late := &metav1.Time{Time: time.Unix(1000, 0)}, &metav1.Time{Time: time.Unix(1060, 0)}
	send.Time(bytes, early, "at")
	send.Time(bytes, nil, "never")
	send.Between(bytes, early, late, "took")
	send.Between(bytes, early, nil, "continues")
	send.Between(bytes, nil, late, "not begun")
	if got := strings.Join(sent, " "); got != "demo/one/at=1000 demo/one/took=60" {
		t.Error(got)
	}
}
