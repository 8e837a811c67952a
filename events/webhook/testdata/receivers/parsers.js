// Express with its own parser of JSON, as in most examples: req.body is undefined for other types.
import express from 'express'
import { store } from './store.js'

const app = express()
app.use(express.json())
app.post('/events', async (req, res) => {
  await store(req.get('ce-id') ? { id: req.get('ce-id') } : req.body)
  res.sendStatus(204)
})
app.listen(process.env.PORT, '127.0.0.1')
