/** The example operations, one a tab. The first is the page this server is made for. */

interface Example {
  readonly query: string;
  readonly variables?: string;
}

const thirty = Array.from({ length: 30 }, (_, index) => String(index + 1));

export const examples: readonly Example[] = [
  {
    query: `# A browse page: thirty games, and under each how many of the viewer's
# friends played it and how many are playing now. Press ▶ (Ctrl-Enter).
# The header X-Headcount-Cost asks the server what the page cost it.
query Page($ids: [ID!]!) {
  games(ids: $ids) {
    id
    name
    friendsPlayed
    friendsPlayedLabel
    livePlayers
    livePlayersLabel
  }
}
`,
    variables: JSON.stringify({ ids: thirty }),
  },
  {
    query: `# Live counts as they move: all of them at once, then only what changed.
subscription LivePlayers($ids: [ID!]!) {
  livePlayers(gameIds: $ids) {
    gameId
    livePlayers
    livePeople
    asOf
  }
}
`,
    variables: JSON.stringify({ ids: thirty }),
  },
  {
    query: `# Who is asking, whom they know, and what they played last.
query Viewer {
  viewer {
    user {
      id
      name
    }
    friends(first: 20) {
      totalCount
      nodes {
        id
        name
      }
    }
    games(first: 10) {
      nodes {
        id
        name
        friendsPlayed
      }
    }
  }
}
`,
  },
  {
    query: `# The viewer plays a game. The first play is what counts: choose one of
# their friends above, and the page shows one friend more under this game.
mutation RecordPlay($gameId: ID!) {
  recordPlay(gameId: $gameId) {
    recorded
    first
    game {
      id
      name
      friendsPlayed
      livePlayers
    }
  }
}
`,
    variables: JSON.stringify({ gameId: "7" }),
  },
  {
    query: `# A game client says "still playing" until it stops saying so.
mutation Heartbeat($sessionId: ID!, $gameId: ID!) {
  heartbeat(sessionId: $sessionId, gameId: $gameId) {
    live
    expiresAt
    nextHeartbeatInSeconds
    game {
      id
      name
      livePlayers
    }
  }
}
`,
    variables: JSON.stringify({ sessionId: "graphiql", gameId: "7" }),
  },
];
