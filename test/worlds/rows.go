package worlds

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// row that a client was told to be safe.
type row struct {
	number     int
	generation string
}

// rows are what clients have written.
type rows struct {
	world *World
	last  int
	acked []row
	// serving is the data generation that clients were led to last, and parent of what a data generation was made, with all its rows.
	serving string
	parent  map[string]string
	// served are the data generations that clients were led to at some time.
	served map[string]bool
	// givenUp says why a row that was acknowledged may be lost.
	givenUp map[int]string
}

func newRows(w *World) *rows {
	return &rows{world: w, parent: map[string]string{}, served: map[string]bool{}, givenUp: map[int]string{}}
}

// write a row to each server that takes it: that to which the Service leads, and any that believes to be primary, since clients keep
// their connections.
func (r *rows) write() {
	slice := &discoveryv1.EndpointSlice{}
	if r.world.get(clusterName+"-rw", slice) != nil {
		return
	}
	var primaries []*server
	for _, s := range r.world.pg.all {
		led := len(slice.Endpoints) == 1 && slices.Equal(slice.Endpoints[0].Addresses, []string{s.ip}) && !s.node.cut
		if s.leads && (led || r.world.chance(3)) {
			primaries = append(primaries, s)
		}
	}
	for _, s := range primaries {
		r.to(s)
	}
}

// to a primary, which acknowledges the row once it is where it has to be.
func (r *rows) to(s *server) {
	d := s.data()
	if r.turnsTo(s.generation); r.world.broken != "" {
		return
	}
	if lost := r.missing(d, s.generation); len(lost) > 0 {
		r.world.breaks("%s serves clients on data generation %s without rows %v, which were acknowledged", s.pod, short(s.generation), lost)
		return
	}
	r.last++
	d.rows = append(d.rows, r.last)
	if wanted := s.config.Synchronous; wanted != nil {
		copies := 0
		for _, other := range r.world.pg.all {
			if other != s && other.streams && !other.node.cut && !s.node.cut && other.generation == s.generation {
				other.volume.data[s.generation] = d.copied()
				copies++
			}
		}
		if copies < wanted.Number {
			return
		}
	}
	r.acked = append(r.acked, row{r.last, s.generation})
}

// turnsTo another data generation than before: one that was made of it, or that a person has decided for.
func (r *rows) turnsTo(generation string) {
	if r.serving != "" && r.serving != generation && !r.contains(generation, r.serving) && !r.world.people.decided(r.serving, generation) {
		r.world.breaks("clients wrote to data generation %s, and are led to %s, which nobody has decided", short(r.serving), short(generation))
	}
	r.serving, r.served[generation] = generation, true
}

// contains: a data generation is another, or was made of it.
func (r *rows) contains(generation, other string) bool {
	for ; generation != ""; generation = r.parent[generation] {
		if generation == other {
			return true
		}
	}
	return false
}

// missing are the rows that were acknowledged on a data generation, were not given up, and are not in the data.
func (r *rows) missing(d *data, generation string) (lost []int) {
	for _, row := range r.acked {
		if r.givenUp[row.number] == "" && r.contains(generation, row.generation) && !slices.Contains(d.rows, row.number) {
			lost = append(lost, row.number)
		}
	}
	return lost
}

// giveUpBut gives up all rows of a data generation but these.
func (r *rows) giveUpBut(generation string, kept []int, why string) {
	for _, row := range r.acked {
		if r.givenUp[row.number] == "" && r.contains(generation, row.generation) && !slices.Contains(kept, row.number) {
			r.givenUp[row.number] = why
		}
	}
}

// nowhere are the rows that no volume has, although nobody gave them up.
func (r *rows) nowhere() (lost []int) {
	for _, row := range r.acked {
		if r.givenUp[row.number] != "" || r.world.people.abandoned(row.generation) {
			continue
		}
		if !r.beside(nil, row.number) {
			lost = append(lost, row.number)
		}
	}
	return lost
}

// beside a volume, there is one that has a row.
func (r *rows) beside(one *volume, number int) bool {
	for _, v := range r.world.kube.volumes {
		for _, d := range v.data {
			if v != one && slices.Contains(d.rows, number) {
				return true
			}
		}
	}
	return false
}

// giveUpOn what only this volume has, since a person deletes it: that is previous data.
func (r *rows) giveUpOn(v *volume) {
	for _, row := range r.acked {
		if r.givenUp[row.number] == "" && !r.beside(v, row.number) {
			r.givenUp[row.number] = "a person deleted the volume"
		}
	}
}
