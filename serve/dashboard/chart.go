package dashboard

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/internal/human"
)

// sparkline returns values as a line without axes. NaN is a gap.
func sparkline(values []float64, words string) g.Node {
	const width, height = 120.0, 28.0
	top := 0.0
	for _, v := range values {
		if v > top {
			top = v
		}
	}
	var path strings.Builder
	pen := "M"
	for i, v := range values {
		if math.IsNaN(v) {
			pen = "M"
			continue
		}
		x, y := width*float64(i)/float64(max(len(values)-1, 1)), height-1
		if top > 0 {
			y -= (height - 2) * v / top
		}
		path.WriteString(pen + strconv.FormatFloat(x, 'f', 1, 64) + " " + strconv.FormatFloat(y, 'f', 1, 64))
		pen = "L"
	}
	return g.El("svg", h.Class("spark"), h.Role("img"), h.Aria("label", words), g.Attr("viewBox", "0 0 120 28"),
		g.Attr("preserveAspectRatio", "none"), g.El("path", g.Attr("d", path.String())))
}

// thin returns at most n of the values, each the mean of some.
func thin(values []float64, n int) []float64 {
	if len(values) <= n {
		return values
	}
	var out []float64
	for i := range n {
		from, to := i*len(values)/n, (i+1)*len(values)/n
		sum := 0.0
		for _, v := range values[from:to] {
			sum += v // NaN if one of them is not known
		}
		out = append(out, sum/float64(to-from))
	}
	return out
}

// pagesLine returns the pages per second over the life of a crawl as a sparkline.
func pagesLine(t *report.Timeline) g.Node {
	if t == nil || len(t.Moments) < 3 {
		return nil
	}
	var values []float64
	top := 0.0
	for _, r := range t.Rates() {
		v := r.PagesPerSecond
		if top = max(top, v); r.Gap {
			v = math.NaN()
		}
		values = append(values, v)
	}
	over := span(t.Moments[len(t.Moments)-1].Time.Sub(t.Moments[0].Time))
	return sparkline(thin(values, 60), "Pages per second over "+over+", at most "+human.PerSecond(top))
}

// timeline answers with the history of a crawl, for the charts of the script: a list of values for each line. null is a
// value that is not known.
func (d *Dashboard) timeline(w http.ResponseWriter, r *http.Request) {
	caller, login, known := d.caller(r)
	v := &view{d: d, r: r, caller: caller, login: login}
	if !known || v.open(r.Context()) != nil {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	lines := struct {
		Time     []float64  `json:"time"` // seconds since 1970
		Pages    []*float64 `json:"pages"`
		Bytes    []*float64 `json:"bytes"`
		Finished []uint64   `json:"finished"`
		Waiting  []uint64   `json:"waiting"`
	}{}
	if t := v.board.Report.Timeline; t != nil {
		for i, rates := range t.Rates() {
			pages, bytes := rounded(rates.PagesPerSecond), rounded(rates.BytesPerSecond)
			if rates.Gap {
				pages, bytes = nil, nil
			}
			lines.Time = append(lines.Time, float64(rates.Time.UnixMilli())/1000)
			lines.Pages, lines.Bytes = append(lines.Pages, pages), append(lines.Bytes, bytes)
			lines.Finished, lines.Waiting = append(lines.Finished, t.Moments[i+1].Finished), append(lines.Waiting, t.Moments[i+1].Waiting)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	out, _ := json.Marshal(lines) // it has only numbers
	writeCompressed(w, r, http.StatusOK, out)
}

// rounded returns a rate with two decimals.
func rounded(rate float64) *float64 {
	rate = math.Round(100*rate) / 100
	return &rate
}

// chartPart returns the charts of the life of a crawl. The script draws them; without it, the first one is a plain line.
func chartPart(v *view) part {
	t := v.board.Report.Timeline
	words := h.P(h.Class("note"), g.Text("The crawl has not run for long enough. The history is kept with the crawl."))
	if t != nil && len(t.Moments) > 2 {
		words = h.P(h.Class("note"), g.Text("From "), when(t.Moments[0].Time), g.Text(" to "), when(t.Moments[len(t.Moments)-1].Time),
			g.Text(", a point each "+span(time.Duration(t.Every))+" at most. The history is kept with the crawl."))
	}
	body := h.Div(h.Class("charts"), h.Data("timeline", v.at("/timeline")),
		h.Figure(h.Data("chart", "pages"), h.FigCaption(g.Text("Pages per second")), pagesLine(t)),
		h.Figure(h.Data("chart", "bytes"), h.FigCaption(g.Text("Bytes per second"))),
		h.Figure(h.Data("chart", "urls"), h.FigCaption(g.Text("URLs: finished, and waiting"))),
		words)
	return part{id: "life", title: "Over its life", wide: true, body: body, command: v.command("report")}
}
