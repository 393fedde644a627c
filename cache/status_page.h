#ifndef WHEELCACHE_CACHE_STATUS_PAGE_H_
#define WHEELCACHE_CACHE_STATUS_PAGE_H_

#include "wheelcache/cache/report/status_page.h"  // IWYU pragma: export

#endif  // WHEELCACHE_CACHE_STATUS_PAGE_H_
