package testweb

// deep is a hardship: one in sixteen of the pages with child pages has its links
// below 600 open elements. golang.org/x/net/html parses only 512.
var deep = hardship{
	bit: Deep, name: "deep",
	doc: "pages whose links are below 600 nested elements",
}

const deepElements = 600

func (w *Web) isDeep(p page) bool {
	return w.has(Deep) && p.index > 0 && w.shape.inner(p) && w.draw(forDeep, p)%16 == 0
}
