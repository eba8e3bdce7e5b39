package objstore

import (
	"fmt"
	"strings"
	"time"
)

// clockTolerance is how far a clock here and that of a store may be apart, which stores of S3 don't allow much more of. Drivers make up for more: a
// process whose clock is wrong by days still reads and deletes (aws-sdk-go-v2 corrects the time in its signatures).
const clockTolerance = 5 * time.Minute

// ClockDiffers says in a sentence that the clock of this process and that of a store are so far apart that the age of what is stored isn't known;
// empty: they agree.
func ClockDiffers(here, store time.Time) string {
	ahead, word := here.Sub(store), "ahead of"
	if ahead < 0 {
		ahead, word = -ahead, "behind"
	}
	if ahead <= clockTolerance {
		return ""
	}
	return fmt.Sprintf("The clock of the controller is %s %s that of the object store.", strings.TrimSuffix(ahead.Round(time.Minute).String(), "0s"), word)
}
