package volumelock_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/volumelock"
)

func TestWhatIsFreeIsOfTheFileSystem(t *testing.T) {
	for name, c := range map[string]struct {
		capacity, used string
		percent        int32
		want           int64
	}{
		"a volume of its own":                  {"10Gi", "4Gi", 40, 6 << 30},
		"a folder of a disk that others fill":  {"4Gi", "50Gi", 50, 50 << 30},
		"a full one":                           {"10Gi", "10Gi", 100, 0},
		"one that is used less than a percent": {"1Ti", "1Gi", 0, 1023 << 30},
	} {
		storage := &v1alpha1.InstanceStorage{
			Capacity: ptr.To(resource.MustParse(c.capacity)), Used: ptr.To(resource.MustParse(c.used)), Percent: c.percent,
		}
		if got, known := volumelock.Free(storage); !known || got < c.want-100 || got > c.want+100 {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
	for name, storage := range map[string]*v1alpha1.InstanceStorage{"none": nil, "one of which nothing was said": {Percent: 40}} {
		if got, known := volumelock.Free(storage); known {
			t.Errorf("%s: %d bytes", name, got)
		}
	}
}
