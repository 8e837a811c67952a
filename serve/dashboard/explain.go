package dashboard

import (
	"context"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bloomfrontier/crawler/internal/human"
)

const maxURL = 8192 // bytes

// explain is the page that says why a URL was crawled or not.
func explain(v *view) (*page, error) {
	url := strings.TrimSpace(v.r.URL.Query().Get("url"))
	form := h.Form(h.Method("get"), h.Action(v.at("/explain")), h.Class("stack"),
		h.Label(h.For("url"), g.Text("URL")),
		h.Input(h.ID("url"), h.Name("url"), h.Type("text"), h.Value(human.Printable(url)), h.MaxLength("8192"), h.Required(), h.AutoComplete("off")),
		h.Button(h.Type("submit"), g.Text("Explain")))
	parts := []part{{id: "ask", title: "Why was a URL crawled, or not?", wide: true, body: form}}
	if url == "" || len(url) > maxURL {
		return &page{title: "Explain", parts: parts}, nil
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), answerTime)
	defer cancel()
	e, err := v.handle.Explain(ctx, url)
	if err != nil {
		return nil, err
	}
	var whole strings.Builder
	_, _ = e.WriteTo(&whole) // a strings.Builder takes all
	lines := strings.Split(strings.TrimRight(whole.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = human.Printable(lines[i])
	}
	body := h.Div(h.P(h.Class("lead"), text(sentence(e.Verdict.String()))),
		h.Pre(h.TabIndex("0"), h.Aria("label", "The whole explanation"), h.Role("region"), g.Text(strings.Join(lines, "\n"))))
	parts = append(parts, part{id: "verdict", title: "The answer", wide: true, body: body, command: v.commandOf("explain", url)})
	return &page{title: "Explain", parts: parts}, nil
}
