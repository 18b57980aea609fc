package console

import (
	"fmt"
	"strconv"
	"strings"
)

// cronNames are the expressions that have a name.
var cronNames = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *",
}

var weekdays = []string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}

// cronWords writes a cron expression in words, such as "Mondays at 09:00". It is empty if the expression is not one of
// the usual ones.
func cronWords(expression string) string {
	if of, ok := cronNames[expression]; ok {
		expression = of
	}
	f := strings.Fields(strings.ToLower(expression))
	if len(f) != 5 || f[3] != "*" {
		return ""
	}
	minute, hour, day, weekday := f[0], f[1], f[2], f[4]
	m, minutely := cronNumber(minute, 59)
	h, hourly := cronNumber(hour, 23)
	d, daily := cronNumber(day, 31)
	at, always := fmt.Sprintf(" at %02d:%02d", h, m), day == "*" && weekday == "*"
	switch {
	case always && minute == "*" && hour == "*":
		return "Every minute"
	case always && hour == "*" && cronStep(minute, 60) > 1:
		return fmt.Sprintf("Every %d minutes", cronStep(minute, 60))
	case always && hour == "*" && minutely && m == 0:
		return "Every hour, on the hour"
	case always && hour == "*" && minutely:
		return fmt.Sprintf("Every hour, at minute %d", m)
	case always && minutely && m == 0 && cronStep(hour, 24) > 1:
		return fmt.Sprintf("Every %d hours", cronStep(hour, 24))
	case !minutely || !hourly:
		return ""
	case always:
		return "Every day" + at
	case weekday == "*" && daily && d > 0:
		return fmt.Sprintf("On day %d of each month%s", d, at)
	case day != "*":
		return ""
	case weekday == "1-5" || weekday == "mon-fri":
		return "Monday to Friday" + at
	}
	for i, name := range weekdays {
		if weekday == strconv.Itoa(i) || weekday == strings.ToLower(name[:3]) || i == 0 && weekday == "7" {
			return name + "s" + at
		}
	}
	return ""
}

// cronNumber reads a field that is one number.
func cronNumber(field string, most int) (int, bool) {
	n, err := strconv.Atoi(field)
	return n, err == nil && n >= 0 && n <= most
}

// cronStep reads a field such as */15 whose steps are equally long, also over the end of the hour or the day.
func cronStep(field string, of int) int {
	n, err := strconv.Atoi(strings.TrimPrefix(field, "*/"))
	if !strings.HasPrefix(field, "*/") || err != nil || n < 1 || of%n != 0 {
		return 0
	}
	return n
}
