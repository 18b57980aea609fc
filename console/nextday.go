package console

import (
	"slices"
	"time"

	"github.com/dbq-go/dbq/schedule"
)

// nextDay is a drawing of what the schedules enqueue in the next 24 hours, with those that fire first at the top.
type nextDay struct {
	Hours  []dayHour
	Lanes  []dayLane
	More   int // schedules that fire and have no lane
	Height int
}

// dayHour is a full hour of the visitor's time zone.
type dayHour struct {
	X    float64
	Text string
}

// dayLane has the times of one schedule: dots or, if it fires too often to tell them apart, a line.
type dayLane struct {
	Name, Queue string
	Y           int
	Dots        []float64
	From        float64 // where the line begins
	Often       bool
	Times       string
}

// The drawing of a day, in its own units; see templates/schedules.html.
const (
	dayLeft, dayWidth = 180, 800
	dayTop, laneHigh  = 34, 28
	maxLanes          = 20
	maxDots           = 72
)

// nextDayOf draws the next 24 hours of schedules. Those that are paused do not fire.
func nextDayOf(all []schedule.Info, c clock) (day nextDay) {
	end := c.now.Add(24 * time.Hour)
	all = keep(all, func(s schedule.Info) bool { return !s.Paused && !s.Next.IsZero() && s.Next.Before(end) })
	slices.SortStableFunc(all, func(a, b schedule.Info) int { return a.Next.Compare(b.Next) })
	day.More = max(0, len(all)-maxLanes)
	at := func(t time.Time) float64 {
		return round(dayLeft + max(0, t.Sub(c.now).Hours())/24*dayWidth)
	}
	for _, s := range all[:len(all)-day.More] {
		times, err := s.Times(c.now, maxDots+1)
		if err != nil { // a newer program has put it, and this one does not know its zone
			day.More++
			continue
		}
		times = keep(times, func(t time.Time) bool { return t.Before(end) })
		lane := dayLane{Name: s.Name, Queue: s.Queue, Y: dayTop + len(day.Lanes)*laneHigh, From: at(s.Next)}
		lane.Often = len(times) > maxDots
		lane.Times = "more than " + number(maxDots) + " times"
		if !lane.Often {
			lane.Times = timesADay(len(times))
			for _, t := range times {
				lane.Dots = append(lane.Dots, at(t))
			}
		}
		day.Lanes = append(day.Lanes, lane)
	}
	const each = 3 // hours
	local := c.now.In(c.zone)
	full := local.Add(-time.Duration(local.Minute()) * time.Minute).Truncate(time.Minute) // also at UTC+5:30
	for t := full.Add(time.Hour); t.Before(end); t = t.Add(time.Hour) {
		if t.Hour()%each == 0 {
			day.Hours = append(day.Hours, dayHour{at(t), t.Format("15:04")})
		}
	}
	day.Height = dayTop + len(day.Lanes)*laneHigh - laneHigh/2
	return day
}

// Rest returns how long the line of a schedule is.
func (l dayLane) Rest() float64 { return round(dayLeft + dayWidth - l.From) }

// Short returns as much of the name as fits in front of the lane.
func (l dayLane) Short() string {
	const fits = 19
	if name := []rune(l.Name); len(name) > fits {
		return string(name[:fits-1]) + "…"
	}
	return l.Name
}

func timesADay(n int) string {
	if n == 1 {
		return "once"
	}
	return number(n) + " times"
}

// Zone returns the name of the zone of the page's times.
func (c clock) Zone() string {
	if c.local {
		return "your time zone"
	}
	return "UTC"
}
