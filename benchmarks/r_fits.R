# Values of R's packages for benchmarks/models_r.py: Rscript benchmarks/r_fits.R SHARED_DATA TABLES > values.json
#
# Needs BradleyTerry2, psychotools, psychotree, qvcalc, survival, gnm, RobustRankAggreg and jsonlite. TABLES is
# benchmarks/r_fits.json, whose "tables" hold the counts. Values have six significant digits, those of psychotools and
# qvcalc five, as their iterations stop early.

suppressMessages({
  library(BradleyTerry2); library(psychotools); library(qvcalc); library(survival); library(gnm)
  library(RobustRankAggreg)
})
arguments <- commandArgs(trailingOnly = TRUE)
shared <- arguments[1]
tables <- jsonlite::fromJSON(arguments[2])$tables
exactly <- glm.control(epsilon = 1e-14, maxit = 100)
found <- list()

note <- function(name, call, ..., digits = 6) {
  values <- c(...)
  printed <- formatC(values, digits = digits, format = "g", flag = "#")
  found[[name]] <<- list(r = call, values = as.list(setNames(printed, names(values))))
}
named <- function(prefix, x) setNames(x, paste(prefix, names(x)))
estimates <- function(coefficients, covariance) c(named("score", coefficients), named("se", sqrt(diag(covariance))))

counts <- function(name) {
  if (name == "pudding") {
    d <- read.csv(file.path(shared, "r-ranking/PlackettLuce/data/pudding.csv"))[c("i", "j", "w_ij", "w_ji", "t_ij")]
    names(d) <- c("left", "right", "wins", "losses", "ties")
    d[1:2] <- lapply(d[1:2], as.character)
  } else if (name == "football") {
    teams <- tables$football$teams
    grid <- do.call(rbind, strsplit(tables$football$results, ""))
    at <- which(grid != "-", arr.ind = TRUE)
    d <- data.frame(left = teams[at[, 1]], right = teams[at[, 2]], wins = grid[at] == "W", losses = grid[at] == "L",
                    ties = grid[at] == "D")
    d[3:5] <- lapply(d[3:5], as.numeric)
  } else {
    d <- as.data.frame(tables[[name]]$rows, stringsAsFactors = FALSE)
    names(d) <- tables[[name]]$columns
    for (n in setdiff(names(d), c("left", "right"))) d[[n]] <- as.numeric(d[[n]])
  }
  items <- sort(unique(c(d$left, d$right)))
  d$left <- factor(d$left, items)
  d$right <- factor(d$right, items)
  d
}

quasi <- function(q) setNames(q$qvframe$quasiVar, paste("quasi", rownames(q$qvframe)))

# Bradley-Terry, by binomial regression.
bradley_terry <- function(name, ...) {
  d <- counts(name)
  fit <- BTm(cbind(wins, losses), left, right, data = d, control = exactly, ...)
  cf <- coef(fit)
  names(cf) <- sub("^\\.\\.", "", names(cf))
  v <- vcov(fit)
  dimnames(v) <- list(names(cf), names(cf))
  c(estimates(cf, v), deviance = deviance(fit))
}
note("citations", "BradleyTerry2: BTm(cbind(wins, losses), left, right)", bradley_terry("citations"))
note("citations, JASA", 'BradleyTerry2: BTm(..., refcat = "JASA")', bradley_terry("citations", refcat = "JASA"))
q <- qvcalc(BTabilities(BTm(cbind(wins, losses), left, right, data = counts("citations"), control = exactly)))
note("citations, quasi", "qvcalc: qvcalc(BTabilities(BTm(...)))", quasi(q), digits = 5)

d <- counts("baseball")
note("baseball", "BradleyTerry2: BTm(cbind(home.wins, away.wins), home.team, away.team)", bradley_terry("baseball"))
at <- list(home = data.frame(team = d$left, at.home = 1), away = data.frame(team = d$right, at.home = 0))
home <- BTm(cbind(wins, losses), at$home, at$away, ~ team + at.home, id = "team", data = d, control = exactly)
cf <- coef(home); names(cf) <- sub("^team", "", names(cf))
v <- vcov(home); dimnames(v) <- list(names(cf), names(cf))
note("baseball, home", "BradleyTerry2: BTm(..., ~ team + at.home)", estimates(cf, v), deviance = deviance(home))
q <- qvcalc(BTabilities(home))
note("baseball, quasi", "qvcalc: qvcalc(BTabilities(BTm(..., ~ team + at.home)))", quasi(q), digits = 5)

# Paired comparisons of psychotools and psychotree, by the data of the packages themselves.
raw <- function(package, set) { e <- new.env(); data(list = set, package = package, envir = e); e[[set]]$preference }
btm <- function(y, ...) {
  fit <- btmodel(y, ref = labels(y)[1], ...)
  c(estimates(coef(fit, all = TRUE, ref = FALSE), vcov(fit)), loglik = as.numeric(logLik(fit)))
}
note("topmodel", "psychotools: btmodel(Topmodel2007$preference)", btm(raw("psychotree", "Topmodel2007")), digits = 5)
note("first names", "psychotools: btmodel(FirstNames$preference)", btm(raw("psychotools", "FirstNames")), digits = 5)
note("parties", "psychotools: btmodel(GermanParties2009$preference)",
     btm(raw("psychotools", "GermanParties2009")), digits = 5)
note("sound quality", "psychotools: btmodel(SoundQuality$preference)",
     btm(raw("psychotools", "SoundQuality")), digits = 5)
note("cems", "psychotools: btmodel(CEMSChoice$preference, undecided = TRUE)",
     btm(raw("psychotree", "CEMSChoice"), undecided = TRUE), digits = 5)

# Davidson's ties, as a log-linear model of the three counts of a pair.
davidson <- function(name, home = FALSE) {
  d <- counts(name)
  items <- levels(d$left)
  one <- function(side) outer(as.integer(d[[side]]), seq_along(items), "==") * 1
  L <- one("left"); R <- one("right")
  X <- rbind(L, R, (L + R) / 2)[, -1]
  colnames(X) <- items[-1]
  n <- nrow(d)
  X <- cbind(X, tie2 = rep(0:1, c(2 * n, n)))
  if (home) X <- cbind(X, at.home = c(rep(1, n), rep(0, n), rep(0.5, n)))
  y <- c(d$wins, d$losses, d$ties)
  fit <- gnm(y ~ X - 1, eliminate = factor(rep(seq_len(n), 3)), family = poisson, tolerance = 1e-14, verbose = FALSE)
  cf <- setNames(coef(fit), colnames(X))
  v <- vcov(fit); v <- matrix(v, ncol(X), dimnames = list(colnames(X), colnames(X)))
  estimates(cf, v)
}
note("pudding", "gnm: log-linear Davidson, eliminate = pair", davidson("pudding"))
note("springall", "gnm: log-linear Davidson, eliminate = pair", davidson("springall"))
note("sound fields", "gnm: log-linear Davidson, eliminate = pair", davidson("sound fields"))
note("football", "gnm: log-linear Davidson with home advantage, eliminate = match", davidson("football", home = TRUE))

# Covariates of items: the gelatine puddings of Springall, ties left out.
d <- counts("springall"); x <- springall$predictors
fit <- BTm(cbind(wins, losses), left, right, ~ flav[..] + gel[..] + flav.2[..] + gel.2[..] + flav.gel[..],
           data = list(contests = d, predictors = x), control = exactly)
cf <- coef(fit); names(cf) <- sub("[..]", "", names(cf), fixed = TRUE)
v <- vcov(fit); dimnames(v) <- list(names(cf), names(cf))
note("springall, covariates", "BradleyTerry2: BTm(cbind(win, loss), ~ flav[..] + gel[..] + ...)", estimates(cf, v),
     deviance = deviance(fit))

# Plackett-Luce as Cox regression with a stratum for each list; Efron's ties; items tied in last place are censored.
preflib <- function(path) {
  lines <- readLines(file.path(shared, path))
  items <- sub("^# ALTERNATIVE NAME [0-9]+: ", "", grep("^# ALTERNATIVE NAME", lines, value = TRUE))
  votes <- grep("^[0-9]+:", lines, value = TRUE)
  do.call(rbind, lapply(seq_along(votes), function(n) {
    ballot <- sub("^[0-9]+:", "", votes[n])
    blocks <- regmatches(ballot, gregexpr("\\{[^}]*\\}|[0-9]+", ballot))[[1]]
    blocks <- lapply(blocks, function(b) as.integer(regmatches(b, gregexpr("[0-9]+", b))[[1]]))
    data.frame(list = n, item = items[unlist(blocks)], rank = rep(seq_along(blocks), lengths(blocks)),
               weight = as.numeric(sub(":.*", "", votes[n])))
  }))
}
cox <- function(rows, items = sort(unique(rows$item))) {
  # With case weights the log-likelihood has another constant, so every list is written as often as it was given.
  times <- rep(seq_len(nrow(rows)), rows$weight)
  copy <- unlist(lapply(rows$weight, seq_len))
  rows <- rows[times, ]
  rows$list <- paste(rows$list, copy)
  rows$item <- factor(rows$item, items)
  last <- ave(rows$rank, rows$list, FUN = max)
  size <- ave(rows$rank, rows$list, rows$rank, FUN = length)
  rows$event <- as.integer(rows$rank < last | size == 1)
  fit <- coxph(Surv(rank, event) ~ item + strata(list), rows, ties = "efron",
               control = coxph.control(eps = 1e-11, toler.chol = 1e-12, iter.max = 50))
  cf <- coef(fit); names(cf) <- sub("^item", "", names(cf))
  v <- vcov(fit); dimnames(v) <- list(names(cf), names(cf))
  c(estimates(cf, v), loglik = fit$loglik[2])
}
efron <- 'survival: coxph(Surv(rank, event) ~ item + strata(list), ties = "efron")'
files <- c(
  "dots 1" = "24-dots/00024-00000001.soc", "dots 2" = "24-dots/00024-00000002.soc",
  "dots 3" = "24-dots/00024-00000003.soc", "dots 4" = "24-dots/00024-00000004.soc",
  "puzzle 1" = "25-puzzle/00025-00000001.soc", "puzzle 2" = "25-puzzle/00025-00000002.soc",
  "puzzle 3" = "25-puzzle/00025-00000003.soc", "puzzle 4" = "25-puzzle/00025-00000004.soc",
  "netflix 138" = "04-netflix/00004-00000138.soc", "sushi 10" = "14-sushi/00014-00000001.soc",
  "sushi scores" = "14-sushi/00014-00000003.toi", "debian 3" = "02-debian/00002-00000003.toc",
  "debian 1" = "02-debian/00002-00000001.toc", "debian 5" = "02-debian/00002-00000005.toc",
  "aspen 2" = "16-aspen/00016-00000002.toc"
)
for (n in names(files)) note(n, efron, cox(preflib(file.path("preflib", files[n]))))

nascar <- as.matrix(read.csv(file.path(shared, "r-ranking/PlackettLuce/data/nascar.csv"))[, -1])
rows <- do.call(rbind, lapply(seq_len(nrow(nascar)), function(k) {
  drivers <- nascar[k, !is.na(nascar[k, ]) & nascar[k, ] > 0 & nascar[k, ] <= 83]
  data.frame(list = k, item = as.character(drivers), rank = seq_along(drivers), weight = 1)
}))
note("nascar, 83 drivers", efron, cox(rows))

beans <- read.csv(file.path(shared, "r-ranking/PlackettLuce/data/beans.csv"))
rows <- do.call(rbind, lapply(seq_len(nrow(beans)), function(k) {
  trial <- unlist(beans[k, c("variety_a", "variety_b", "variety_c")])
  order <- c(beans$best[k], setdiff(c("A", "B", "C"), c(beans$best[k], beans$worst[k])), beans$worst[k])
  worse <- unlist(beans[k, c("var_a", "var_b", "var_c")]) == "Worse"
  data.frame(list = paste(k, c(0, 0, 0, 1:3, 1:3)),
             item = c(trial[match(order, c("A", "B", "C"))], trial, rep("Local", 3)),
             rank = c(1:3, ifelse(worse, 2, 1), ifelse(worse, 1, 2)), weight = 1)
}))
note("beans", efron, cox(rows))

potato <- read.csv(file.path(shared, "r-ranking/BayesMallows/data/potato_visual.csv"))
rows <- data.frame(list = rep(potato[[1]], 20), item = rep(names(potato)[-1], each = 12), rank = unlist(potato[-1]))
truth <- read.csv(file.path(shared, "r-ranking/BayesMallows/data/potato_true_ranking.csv"))[[2]]
rows$truth <- truth[match(rows$item, paste0("P", 1:20))]
fit <- coxph(Surv(rank, rep(1, nrow(rows))) ~ truth + strata(list), rows,
             control = coxph.control(eps = 1e-11, toler.chol = 1e-12))
note("potatoes, covariate", "survival: coxph(Surv(rank) ~ truth + strata(list))", "score truth" = unname(coef(fit)),
     "se truth" = sqrt(vcov(fit)[1, 1]), loglik = fit$loglik[2])

# Davidson-Luce ties: every choice is a multinomial over the sets that could be chosen, of the sizes seen.
davidson_luce <- function(d, items) {
  lists <- lapply(seq_len(nrow(d)), function(k) as.numeric(d[k, -1]))
  chosen <- lapply(lists, function(r) lapply(sort(unique(r[r > 0])), function(v) which(r == v)))
  sizes <- sort(unique(unlist(lapply(chosen, lengths))))
  rows <- list(); y <- c(); w <- c(); z <- c(); choice <- 0
  for (k in seq_along(lists)) {
    left <- which(lists[[k]] > 0)
    for (block in chosen[[k]]) {
      if (length(left) > 1) {
        choice <- choice + 1
        for (q in sizes[sizes <= length(left)]) for (set in combn(left, q, simplify = FALSE)) {
          x <- numeric(length(items)); x[set] <- 1 / q
          rows[[length(rows) + 1]] <- c(x, as.numeric(sizes[-1] == q))
          y <- c(y, as.numeric(setequal(set, block))); w <- c(w, as.numeric(d[k, 1])); z <- c(z, choice)
        }
      }
      left <- setdiff(left, block)
    }
  }
  X <- do.call(rbind, rows)[, -1]
  colnames(X) <- c(items[-1], paste0("tie", sizes[-1]))
  fit <- gnm(y ~ X - 1, eliminate = factor(z), weights = w, family = poisson, tolerance = 1e-14, verbose = FALSE)
  cf <- setNames(coef(fit), colnames(X))
  v <- matrix(vcov(fit), ncol(X), dimnames = list(colnames(X), colnames(X)))
  estimates(cf, v)
}
note("ties of two and three", "gnm: choices among all sets of one to three items, eliminate = choice",
     davidson_luce(tables[["ties of two and three"]]$rows, tables[["ties of two and three"]]$columns[-1]))
rows <- preflib("preflib/02-debian/00002-00000001.toc")
items <- sort(unique(rows$item))
d <- t(sapply(split(rows, rows$list), function(r) {
  at <- match(items, r$item)
  c(r$weight[1], ifelse(is.na(at), 0, r$rank[at]))
}))
note("debian 1, Davidson-Luce", "gnm: choices among all sets of one to three items, eliminate = choice",
     davidson_luce(d, items))

# Robust rank aggregation of five short gene lists.
genes <- lapply(tables$genes$lists, as.character)
p <- function(r) setNames(r$Score, paste("p", r$Name))
note("genes, RRA", "RobustRankAggreg: aggregateRanks(lists, N = 500)", p(aggregateRanks(genes, N = 500)))
note("genes, exact", "RobustRankAggreg: aggregateRanks(lists, N = 500, exact = TRUE)",
     p(aggregateRanks(genes, N = 500, exact = TRUE)))
note("genes, Stuart", 'RobustRankAggreg: aggregateRanks(lists, N = 500, method = "stuart")',
     p(aggregateRanks(genes, N = 500, method = "stuart")))

cat(jsonlite::toJSON(found, auto_unbox = TRUE, pretty = 1), "\n")
