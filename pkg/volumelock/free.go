package volumelock

import "howdah.dev/apis/v1alpha1"

// Free is how much of a volume is free, to a percent of it and in its favour, as far as its agent has said. Where a class gives out folders, the file
// system is larger than the volume, and used by others too; so what counts is the part of it that is used.
func Free(s *v1alpha1.InstanceStorage) (bytes int64, known bool) {
	switch {
	case s == nil || s.Used == nil || s.Percent == 0 && s.Capacity == nil:
		return 0, false
	case s.Percent == 0:
		return max(0, s.Capacity.Value()-s.Used.Value()), true
	}
	return s.Used.Value() * int64(100-s.Percent) / int64(s.Percent), true
}
