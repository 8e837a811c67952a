package trap_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/trap"
)

// TestDates holds URLs as real sites have them. The year of the crawl is 2026, so that dates
// after 2031 are refused. Each source names a report of a crawler that followed such a calendar
// without end, the program that makes such URLs, or an archive or a catalogue that has them.
func TestDates(t *testing.T) {
	l := limits(t, trap.Default(in2026))
	for _, test := range []struct{ url, source string }{
		// Endless calendars.
		{"/index.php?journal=rcci&op=statistics&page=about&statisticsYear=7749", "github.com/yasserg/crawler4j/issues/31 (Open Journal Systems)"},
		{"/index.php?page=about&statisticsyear=2032", "the same in lower case"},
		{"/calendar/view.php?view=month&cal_d=1&cal_m=1&cal_y=1057", "github.com/Norconex/crawler/issues/139 (Moodle before 2.7)"},
		{"/view?cal_d=1&cal_m=1&cal_y=2032", "the same in the other direction"},
		{"/view?cal_d=1&cal_m=1&cal_y=1899", "the same, near"},
		{"/calendar/view.php?view=month&time=1956528000", "Moodle since 2.7: seconds since 1970"},
		{"/calendar/view.php?view=month&time=-2209075200", "Moodle, 31 December 1899"},
		{"/?view=day&timestamp=1956528000000", "the same in milliseconds"},
		{"/demo/calendar/month/2032/1", "github.com/solspace/craft-calendar/issues/171"},
		{"/demo/calendar/week/2032/11/3", "github.com/solspace/craft-calendar/issues/171"},
		{"/events/upcoming/20431227", "github.com/geoff-maddock/events-tracker/issues/2001"},
		{"/events/month/2127-04/", "The Events Calendar (WordPress), eventDisplay and eventDate"},
		{"/events/2127-04/", "The Events Calendar, month view"},
		{"/events/2032-04-01/", "The Events Calendar, day view"},
		{"/events/?tribe-bar-date=2032-04-01", "The Events Calendar"},
		{"/?post_type=tribe_events&eventDisplay=month&eventDate=2032-04", "The Events Calendar without permalinks"},
		{"/calendar/action~oneday/exact_date~1-1-2032/", "help.time.ly/limiting-excessive-google-crawls (All-in-One Event Calendar)"},
		{"/calendar/action~month/exact_date~1956528000/", "All-in-One Event Calendar"},
		{"/?mcat=5&time=day&yr=2032&month=1&dy=3", "github.com/joedolson/my-calendar/issues/658"},
		{"/calendar/index.php?mode=&view=month&month=01&year=2032", "github.com/Geeklog-Core/geeklog/issues/262"},
		{"/foobar?month=203204", "github.com/contao/contao/pull/4487 (Contao calendar)"},
		{"/foobar?day=20320401", "Contao calendar"},
		{"/MonthCalendar/2032-04-01", "github.com/moinwiki/moin/issues/2264"},
		{"/HelpOnMacros?calparms=x,2032,4&caldate=2032-4", "a macro's parameters"},
		{"/component/jevents/month.calendar/2032/12/01/-", "JEvents (Joomla)"},
		{"/year.listevents/2032/12/01/-", "JEvents"},
		{"/index.php?option=com_jevents&task=month.calendar&year=2032&month=12&day=1", "JEvents without rewriting"},
		{"/index.php?action=calendar;year=2032;month=3", "github.com/SimpleMachines/SMF/issues/5030"},
		{"/calendar.php?do=getinfo&day=2032-1-7&c=1", "vBulletin"},
		{"/calendar-field_date/month/2032-05", "Drupal Calendar"},
		{"/calendar/2032-W18", "Drupal Calendar, week"},
		{"/termine?week=2032-W18", "ISO 8601"},
		{"/termine?tx_cal_controller%5Byear%5D=2032&tx_cal_controller%5Bmonth%5D=5", "TYPO3 cal"},
		{"/termine?tx_cal_controller[getdate]=20320501", "TYPO3 cal"},
		{"/termine?datum=01.05.2032", "German"},
		{"/termine?datum=01052032", "German, without separators"},
		{"/events?date=05%2F01%2F2032", "American, escaped"},
		{"/agenda?jour=2032-05-01", "French"},
		{"/year/2032/", "a segment names the year"},
		{"/agenda/2032/05", "French and Spanish"},
		{"/plan?jahr=2032&monat=5", "German"},
		{"/plan?ann%C3%A9e=2032", "French, not ASCII"},
		{"/r?start=2032-05-01&end=2032-06-01", "FullCalendar"},
		{"/archives/2044/03", "a blog with links to the next month"},
		{"/2044/03/", "a blog with links to the next month"},
		{"/2044/03/07/", "a blog with links to the next day"},
		{"/cal?p=2032-05", "the path names a calendar"},
		{"/cal/1899/12", "simonwillison.net/2003/Feb/20/calendarsAndCrawlers: back to 1542"},
		{"/cal?y=2032&m=1", "y beside a month"},
		{"/2032/01/07/story", "an article of a year that is not there yet"},
	} {
		if got, words := l.Judge(parse(t, "http://a.test"+test.url)); got != frontier.ReasonCalendar || words == "" {
			t.Errorf("%s: %q, want it refused: %s", test.url, got, test.source)
		}
	}
	for _, test := range []struct{ url, source string }{
		// Numbers of another kind.
		{"/thread/5012/02", "a thread and its page"},
		{"/5012/02", "an article and its page"},
		{"/2044/2", "an article and its page"},
		{"/thread/2044/2/7", "a thread, its page and an answer"},
		{"/thread/2044-03", "a thread and its page, as if 2044 was a year"},
		{"/item/4711/12", "an article and its variant"},
		{"/item/20441207", "an article's number of eight digits"},
		{"/part/2500-12", "a spare part"},
		{"/part/2044-10.html", "a spare part"},
		{"/issue/3456-10", "an issue"},
		{"/events/5012/02", "an event and its page"},
		{"/calendar/event/45120913", "an event's number"},
		{"/calendar/view.php?id=45120913", "an event's number"},
		{"/calendar/event?id=2044", "an event's number"},
		{"/six-month-loans/2500-12", "a word of a product's name"},
		{"/rfc/8259-2017", "a document with its year"},
		{"/doi/10.1000/4102.12.01", "a DOI"},
		{"/doi/10.1093/ajae/2044.03", "a DOI"},
		{"/tel/2044-0312", "a telephone number"},
		{"/call?from=4915112345678&to=491711234567", "telephone numbers"},
		{"/call?phone=2044-03-12", "a telephone number"},
		{"/v/2044.03.1/notes", "a version"},
		{"/chemistry/7732-18-5", "a CAS number"},
		{"/isbn/9780306406157", "an ISBN"},
		{"/book?isbn=2044031207", "an ISBN of ten digits"},
		{"/map?x=1200&y=2500", "a point of a map"},
		{"/q?id=9999&y=9", "no year"},
		{"/?y=9999", "y alone is no year"},
		{"/clock?time=2044", "a time of day"},
		{"/clock?time=204412", "a time of day"},
		{"/log?date=251231", "a day, its year with two digits"},
		{"/log?date=31122025", "a day"},
		{"/watch?v=abc&t=2044", "a place in a film"},
		{"/search?candidate=20441207", "a number"},
		{"/agenda2063/goals", "African Union, Agenda 2063"},
		{"/agenda-2063", "African Union, Agenda 2063"},
		{"/plan/2050", "a plan for 2050"},
		{"/strategy-2050-12", "a plan for 2050"},
		{"/static/app.js?ts=1732800000", "a version of a file"},
		{"/p?time=9999999", "seconds of another kind"},
		{"/web/20441207000000/http://b.test/", "an archive of pages"},
		// Archives.
		{"/paper/1895-03-01/", "an archive of newspapers"},
		{"/lccn/sn83030214/1895-03-01/ed-1/", "Chronicling America"},
		{"/cgi-content/anno?aid=nfp&datum=18950301&seite=1", "ANNO, Austrian National Library"},
		{"/cgi-content/anno?aid=nfp&datum=1895", "ANNO"},
		{"/ark:/12148/cb32757974m/date18950301", "Gallica"},
		{"/ark:/12148/cb32757974m/date1895", "Gallica"},
		{"/search?dateFrom=1788-01-01&dateTo=1793-12-31", "Trove"},
		{"/gazette/London/issue/1/1665-11-07", "The London Gazette"},
		{"/archive/1788/05/", "an archive"},
		{"/papers?year=1788&month=5&day=3", "an archive"},
		{"/onthisday/1492-10-12", "history"},
		// Dates near now.
		{"/cal/2031/12/", "within five years"},
		{"/cal/1900/12", "since 1900"},
		{"/cal?year=2031", "within five years"},
		{"/2026/11/28/story", "an article of today"},
		{"/view?month&time=1793491200", "November 2026"},
		{"/day?date=20261101", "November 2026"},
		// Hardly numbers.
		{"/cal/%32%30", "escapes"}, {"/%C3%A9/2/", "escapes"}, {"/cal?date=", "no value"}, {"/cal?date", "no value"},
		{"/cal/2044", "a calendar's number"}, {"/cal/99999999999999999999/12", "too many digits"}, {"/cal/2044/13", "no month"}, {"/cal/2044/00", "no month"},
	} {
		if got, words := l.Judge(parse(t, "http://a.test"+test.url)); got != "" {
			t.Errorf("%s is refused: %s, %s, want it allowed: %s", test.url, got, words, test.source)
		}
	}
}

// TestCalendarsEnd: a crawl that follows the links of a calendar to the next, or the previous,
// year, month, week or day meets a refused URL.
func TestCalendarsEnd(t *testing.T) {
	l := limits(t, trap.Default(in2026))
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	for _, calendar := range []struct {
		form                       string // of time.Format; S is the time in seconds, M in milliseconds
		years, months, days, steps int
	}{
		{"/about?statisticsYear=2006", 1, 0, 0, 6},
		{"/view?cal_d=1&cal_m=1&cal_y=2006", -1, 0, 0, 127},
		{"/view?month&time=S", 0, 1, 0, 62},
		{"/view?time=M", 0, 1, 0, 62},
		{"/day?date=20060102", 0, 1, 0, 62},
		{"/cal/2006/01", 0, 1, 0, 62},
		{"/cal/2006/1/2", 0, 0, 1, 1861},
		{"/2006/01/02", 0, 0, 7, 267},
		{"/kalender?datum=2.1.2006", 0, 0, 7, 267},
		{"/calendar/2006-01", 0, -1, 0, 1523},
	} {
		day, steps := now, 0
		for ; steps < 5000; steps++ {
			path := day.Format(calendar.form)
			path = strings.ReplaceAll(path, "time=S", fmt.Sprintf("time=%d", day.Unix()))
			path = strings.ReplaceAll(path, "time=M", fmt.Sprintf("time=%d", day.UnixMilli()))
			if reason, _ := l.Judge(parse(t, "http://a.test"+path)); reason != "" {
				break
			}
			day = day.AddDate(calendar.years, calendar.months, calendar.days)
		}
		if steps > calendar.steps || steps < 5 {
			t.Errorf("%s is followed for %d steps, want 5 to %d", calendar.form, steps, calendar.steps)
		}
	}
}

func FuzzDates(f *testing.F) {
	for _, path := range []string{"/cal/2032/05?date=20320501&time=1956528000000", "/%32032/-99999999999", "/cal?y=2032&m=1;date=1.5.2032"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		url, err := newCanon(t).Parse("http://a.test/" + path)
		if err != nil {
			return
		}
		l := &trap.Limits{LastYear: 2031}
		if reason, words := l.Judge(url); (reason == "") != (words == "") || reason != "" && !strings.ContainsAny(path, "0123456789") {
			t.Errorf("Judge(%q) = %q, %q", url, reason, words)
		}
	})
}
