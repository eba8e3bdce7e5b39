package agentclient

import "sync"

// lane does work in order, a limited number of pieces at a time. It has no goroutines while there is none. The mutex of whoever has
// it guards it.
type lane struct {
	limit, running int
	waiting        []func()
}

// add a piece of work; mu is held.
func (l *lane) add(mu *sync.Mutex, work func()) {
	l.waiting = append(l.waiting, work)
	if l.running < l.limit {
		l.running++
		go l.run(mu)
	}
}

func (l *lane) run(mu *sync.Mutex) {
	for {
		mu.Lock()
		if len(l.waiting) == 0 {
			l.running--
			l.waiting = nil
			mu.Unlock()
			return
		}
		work := l.waiting[0]
		l.waiting[0], l.waiting = nil, l.waiting[1:]
		mu.Unlock()
		work()
	}
}
