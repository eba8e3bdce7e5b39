package mem_test

import (
	"testing"

	"howdah.dev/howdah/pkg/objstore/fault"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/objstore/retry"
	"howdah.dev/howdah/pkg/objstore/storetest"
)

func TestTheStoreInMemoryConforms(t *testing.T) { storetest.Run(t, mem.New()) }

func TestTheWrappersConform(t *testing.T) {
	storetest.Run(t, retry.New(fault.New(mem.New(), fault.Plan{}), retry.Policy{}))
}

func TestABodyIsWhatItsChecksumSays(t *testing.T) { storetest.Sums(t, mem.New()) }
