package testweb

// deep: one in sixteen of the pages that others hang from has its links below
// 600 open elements, more than golang.org/x/net/html parses (512).
var deep = hardship{
	bit: Deep, name: "deep",
	doc: "pages whose links are below 600 nested elements",
}

const deepElements = 600

func (w *Web) isDeep(p page) bool {
	return w.has(Deep) && p.index > 0 && w.shape.inner(p) && w.draw(forDeep, p)%16 == 0
}
